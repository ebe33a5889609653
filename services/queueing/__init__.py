"""Owns pending pods: what is tried next and in which batch; does not know nodes."""
