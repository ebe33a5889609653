"""Workloads, plans, floods and their figures."""
