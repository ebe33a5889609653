"""Owns the nodes of one shard: filters, scores and reserves in one step. It does not order pods."""
