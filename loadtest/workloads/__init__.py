"""Workloads after scheduler_perf's, played in one process: `python -m loadtest.workloads`."""
