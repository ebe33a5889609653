"""`python -m loadtest.batching`: what batches save, beside single cycles."""
