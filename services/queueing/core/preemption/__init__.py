"""Parked pods and preemption: asks, and pods whose victims are leaving."""
