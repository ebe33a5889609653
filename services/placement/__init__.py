"""Owns the nodes of one shard: allocatable, requested, reserved, nominated, devices.

It filters, scores and reserves in one step, and does not order pods.
"""
