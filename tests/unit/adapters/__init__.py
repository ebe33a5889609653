"""Adapters, without their servers: the contract suite has those."""
