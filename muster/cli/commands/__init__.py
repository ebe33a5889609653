"""One module per command: it checks options and composes the parts; no logic of the mesh."""
