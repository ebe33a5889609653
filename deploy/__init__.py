"""Deployment: the image, the Helm chart, the kustomize bases and the servers of tests."""
