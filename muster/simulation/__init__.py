"""Simulates the whole mesh in one thread on virtual time, under a seeded schedule of faults."""
