"""Public traces of GPU clusters, read as worlds."""
