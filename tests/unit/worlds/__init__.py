"""Importers: the worlds that rows and manifests give, and the message for each refused input."""
