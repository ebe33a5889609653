"""Builders, strategies and given/when/then for tests; never imported by production code."""
