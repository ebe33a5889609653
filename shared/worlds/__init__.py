"""Importers: they turn traces, manifests and flood settings into a World. They place nothing."""
