"""Owns victims and nominations: who goes, for whom; deletes nothing itself."""
