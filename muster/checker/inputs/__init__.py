"""The checker's inputs: journals, the cluster's history, and lookups over them."""
