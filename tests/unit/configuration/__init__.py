"""Scheduler configuration: read, checked, and made a profile."""
