"""Ingest as a state machine: what the cluster showed, in the mesh's own numbers. Pure."""
