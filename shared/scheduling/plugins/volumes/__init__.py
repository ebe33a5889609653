"""The plugins of volumes."""
