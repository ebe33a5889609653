"""Real and in-memory implementations of the ports; no scheduling decisions."""
