"""The oracle: a Go program that runs kube-scheduler's own plugins, and its Python client.

The program is built by `make servers`. What asks it or serves it belongs here.
"""
