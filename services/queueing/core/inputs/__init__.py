"""Handlers of the events of other journals and of queueing's own."""
