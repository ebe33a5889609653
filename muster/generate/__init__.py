"""Generators of schemas/ and of the pages in docs/reference/ that follow from the code."""
