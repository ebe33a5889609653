"""Preemption as a state machine: victims and nominations over all shards. Pure."""
