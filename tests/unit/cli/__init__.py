"""The command line's own parts: accepted input, the verdict on a run, displays."""
