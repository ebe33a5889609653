"""Protocols of the outside (bus, cluster, clock); implementations are in shared.adapters."""
