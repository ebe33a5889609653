"""From a dispatch to its answer: pods placed or rejected, and what wakes rejected ones."""
