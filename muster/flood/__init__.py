"""`muster flood`: workloads after scheduler_perf's, played against a target and measured."""
