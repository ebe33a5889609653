"""Owns the nodes of one shard: filters, scores and reserves in one step; does not order pods."""
