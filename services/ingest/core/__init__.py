"""The core of ingest: what the cluster shows, in the mesh's own numbers, as a pure
state machine.
"""
