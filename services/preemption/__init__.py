"""Owns open preemptions, their victims, budgets, and what running pods use of queues.

It deletes nothing itself.
"""
