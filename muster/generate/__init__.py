"""Generators of schemas/ and docs/transitions.md."""
