"""The whole mesh on virtual time under seeded faults, judged by an independent checker."""
