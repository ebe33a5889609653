"""Placement: one shard, given events, then events."""
