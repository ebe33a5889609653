"""The extender that kube-scheduler asks."""
