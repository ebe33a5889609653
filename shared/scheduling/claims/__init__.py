"""Dynamic resource allocation: which devices a pod's claims would get on a node, as kube-scheduler
chooses them (k8s.io/dynamic-resource-allocation/structured). Reading objects does not belong here.
"""
