"""Loads users' plugins and refuses code that would break determinism."""
