"""Implementations of the port `Snapshots`: files and memory."""
