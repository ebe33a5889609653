"""Workloads and measurements behind `make bench`; no part of the product at run time."""
