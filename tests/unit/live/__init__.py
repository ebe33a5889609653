"""Unit tests of the live tests' checker."""
