"""Live pods: seen, assigned, started and deleted, with their identity for inter-pod rules."""
