"""Tests against a real control plane: etcd, kube-apiserver and their friends, as processes."""
