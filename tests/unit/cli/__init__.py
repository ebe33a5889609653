"""The command line's own parts: what it accepts, how it judges a run, what it shows."""
