"""Frozen values: pod, node, resources, gang, signature; no behaviour that needs a clock or I/O."""
