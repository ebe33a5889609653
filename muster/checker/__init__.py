"""The checker: finds violations in a run's journals and the cluster's history.

It shares no code with the services' cores, so a bug there cannot hide itself here.
"""
