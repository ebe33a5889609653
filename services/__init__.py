"""One package per service: a pure core (decide, evolve) and a thin shell; none imports another.

A decision is a reservation: the shard that picks a node owns it and subtracts in the same step.
docs/reference/services.md lists what each service reads. This package holds no code of its own;
what the services share is in ``shared``.
"""
