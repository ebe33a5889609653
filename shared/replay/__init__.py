"""Reads recorded journals: replay (fold and re-decide) and stories. It writes nothing."""
