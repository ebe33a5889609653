"""Tests, one folder per kind of proof."""
