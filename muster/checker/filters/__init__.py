"""Filter's rules a second time, one pod and one node at a time, written to be read."""
