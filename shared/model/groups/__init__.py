"""What groups of pods ask for: trees, topology, minimums, and nodes from an autoscaler."""
