"""Scenarios in virtual time: a small cluster and the whole mesh, as in kube-scheduler's integration
tests. A test that needs several services and no faults belongs here.
"""
