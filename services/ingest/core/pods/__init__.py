"""Live pods: seen, assigned, started and gone, with their identity for rules between pods."""
