"""HTTP extenders asked about nodes: questions, answers and retries."""
