"""Unit tests of the independent checker."""
