"""The adapter for a live Kubernetes API, against a small server that can fail."""
