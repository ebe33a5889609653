"""Counts of what services decide and record, for Prometheus; only a process that serves metrics
counts. Names are kube-scheduler's where it has them (docs/reference/metrics.md).
"""
