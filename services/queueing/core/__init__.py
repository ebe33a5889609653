"""Queueing as a state machine: pending pods, their order and batches. Pure."""
