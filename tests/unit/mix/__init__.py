"""Mixes of workloads: reading, drawing, controllers and figures."""
