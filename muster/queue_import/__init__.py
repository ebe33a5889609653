"""Converts the queues of other schedulers, with no cluster and no run."""
