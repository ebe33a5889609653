"""Adapters without a package of their own: YAML, metrics, structured gathering."""
