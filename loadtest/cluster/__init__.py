"""`make bench-cluster`: Muster beside kube-scheduler on a real API server, one module per case."""
