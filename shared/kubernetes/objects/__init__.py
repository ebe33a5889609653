"""Kubernetes objects to values of the domain, read from the API and from manifests alike. Pure."""
