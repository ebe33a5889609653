"""Preemption in a shard: dry runs, nominations, and why evictions would not help."""
