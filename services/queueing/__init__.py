"""Owns pending pods and why they wait, batches, credits, and which groups are ready.

It does not know nodes.
"""
