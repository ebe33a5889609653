"""Owns open gangs: commits a gang or releases all its holds. It does not pick nodes."""
