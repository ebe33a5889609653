"""Checks of what checks the live tests."""
