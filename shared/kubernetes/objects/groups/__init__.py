"""Converts the objects of groups: composite ones, those of other schedulers, and what they name."""
