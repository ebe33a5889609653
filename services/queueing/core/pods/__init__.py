"""Pending pods: their table, their queues, and moves between them."""
