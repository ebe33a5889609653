"""Plugins of users: loaded, and checked against what would break determinism."""
