"""Snapshot stores."""
