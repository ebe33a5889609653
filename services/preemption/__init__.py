"""Owns victims and nominations: chooses which pods are evicted for which preemptor. It deletes
nothing itself.
"""
