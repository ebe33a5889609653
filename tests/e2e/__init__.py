"""The commands a user types, run as processes."""
