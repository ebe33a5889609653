"""Queues of other schedulers become Queues."""
