"""Rules between pods: what selects pods, default spread, and what rules count on shards."""
