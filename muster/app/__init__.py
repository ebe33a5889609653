"""Assembles the mesh: members, pacing, and runs in one process or on a live cluster."""
