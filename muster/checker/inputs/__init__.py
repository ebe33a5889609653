"""What the checker reads: journals, the cluster's history, and what they say by the end."""
