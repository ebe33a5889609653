"""Checks preemption: its victims, the units that leave whole, and how long they have run."""
