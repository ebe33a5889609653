"""The core of placement: one shard's nodes and their charges, as a pure state machine."""
