"""Calls to HTTP extenders about nodes: questions, answers and retries."""
