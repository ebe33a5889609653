"""scheduler_perf's workloads as files for `muster flood`: `python -m loadtest.workloads`."""
