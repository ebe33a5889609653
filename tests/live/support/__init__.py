"""Helpers of the live tests: objects to create, commands to start, and the verdict on one test.

A helper that needs no API server, or that other folders use, belongs in tests/support.
"""
