"""Importers: what becomes of rows and manifests, and which input is refused with which line."""
