"""The core of queueing: pending pods, their order and batches, as a pure state machine."""
