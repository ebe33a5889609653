"""Unit tests of the benches."""
