"""Floods on up to 100,000 nodes, in one process with a durable journal."""
