"""Adapters that fit nowhere else: YAML, metrics, structured gathering."""
