"""Journals folded and decided again must give the same bytes."""
