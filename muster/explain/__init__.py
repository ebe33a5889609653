"""Answers about a run: why a pod waits, how nodes score, and the summary."""
