"""Plugins as users write them, which must all be taken."""
