"""What other journals, and queueing's own, do to the queue."""
