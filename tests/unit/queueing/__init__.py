"""Queueing's core, step by step."""
