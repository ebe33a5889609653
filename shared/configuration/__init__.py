"""Reads KubeSchedulerConfiguration files into the profiles that Muster runs."""
