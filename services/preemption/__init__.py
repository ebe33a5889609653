"""Owns open preemptions, their victims, and budgets.

It deletes nothing itself.
"""
