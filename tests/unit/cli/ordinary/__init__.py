"""Plugins as users write them; all of them must be accepted."""
