"""Owns open gangs: opens the gate or gives everything back; does not pick nodes."""
