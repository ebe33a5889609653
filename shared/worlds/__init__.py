"""Importers: from traces, manifests and flood settings to a World; they place nothing."""
