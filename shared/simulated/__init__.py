"""A simulated cluster: plays a world and takes binds and evictions as a Kubernetes API does."""
