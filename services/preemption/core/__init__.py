"""The core of preemption: victims and nominations over all shards, as a pure state machine."""
