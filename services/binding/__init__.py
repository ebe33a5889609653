"""Owns requests to the API without a definite outcome.

It sends, repeats, reads back and reports them, and decides nothing about pods.
"""
