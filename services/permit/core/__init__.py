"""Permit as a state machine: one transaction for each attempt of a gang. Pure."""
