"""Gangs in the queue: members counted, attempts made, room asked for."""
