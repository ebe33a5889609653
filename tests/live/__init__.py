"""Tests against a real control plane: etcd, kube-apiserver and KWOK, each a process.

Test modules are named after what they test. `support/` holds their helpers, and `checker/` judges
a run from etcd's history, the audit log and the journals alone.
"""
