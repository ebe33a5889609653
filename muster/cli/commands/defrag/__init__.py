"""`muster defrag`: shows a plan, and carries it out."""
