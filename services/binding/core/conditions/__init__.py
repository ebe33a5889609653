"""Conditions that binding writes: why pods wait, and whether groups of pods were scheduled."""
