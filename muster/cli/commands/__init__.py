"""One module per command: its options, and what it puts together; no logic of the mesh."""
