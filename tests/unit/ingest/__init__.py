"""Ingest's core and shell."""
