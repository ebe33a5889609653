"""Protocols of the outside: bus, cluster, clock. Their implementations are in other packages."""
