"""The Kubernetes API as the port `Cluster`: client, watches, writes and objects."""
