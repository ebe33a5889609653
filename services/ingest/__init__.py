"""Owns what was observed, the numbers of uids, the signatures, and the shard of each node.

It decides nothing.
"""
