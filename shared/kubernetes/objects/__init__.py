"""Converts Kubernetes objects to values, from the API and from manifests alike. Pure."""
