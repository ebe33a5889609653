"""Requests that change the cluster: binds, evictions, conditions, volumes and events."""
