"""What the mesh writes to the API: binds, evictions, conditions, volumes and events."""
