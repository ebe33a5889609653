"""Six services, each a pure core (decide, evolve) and a thin shell; none imports another.

A decision is a reservation: the shard that picks a node owns it and subtracts in the same step.
ARCHITECTURE.md draws who reads whom. This package holds no code of its own; what the services
share is in ``shared``.
"""
