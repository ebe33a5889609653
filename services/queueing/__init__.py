"""Owns pending pods: which are tried next and in which batch. It does not know nodes."""
