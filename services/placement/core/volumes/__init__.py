"""Volumes that reservations chose, by this shard and by others."""
