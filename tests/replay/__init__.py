"""Replays: folding and deciding recorded journals again must give the same bytes."""
