"""Addresses of the command line and their clients: a bus, a simulated cluster, an API server."""
