"""Simulations: the whole mesh in virtual time under seeded faults, checked by an independent
checker. `bugs/` holds planted bugs, each of which the checker must find.
"""
