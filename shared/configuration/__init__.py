"""KubeSchedulerConfiguration files to the profiles that Muster runs."""
