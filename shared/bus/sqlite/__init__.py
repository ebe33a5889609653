"""The embedded bus: all journals in one SQLite file."""
