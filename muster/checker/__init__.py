"""Judges a run from its journals and the cluster's history alone; shares no code with the cores."""
