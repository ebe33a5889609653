"""Binding's core and shell."""
