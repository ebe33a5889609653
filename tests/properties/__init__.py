"""Property tests; each name carries the safety property it holds."""
