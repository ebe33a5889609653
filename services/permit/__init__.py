"""Owns open gangs: it commits a gang or releases all its holds.

It does not pick nodes.
"""
