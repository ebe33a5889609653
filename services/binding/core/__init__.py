"""Binding as a state machine: what was asked of the API, and what came of it. Pure."""
