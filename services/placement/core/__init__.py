"""Placement as a state machine: one shard's nodes and what is charged to them. Pure."""
