"""Volumes chosen with reservations, by this shard and by others."""
