"""What kube-scheduler's integration tests tell of its queue and of gangs, played by a mesh."""
