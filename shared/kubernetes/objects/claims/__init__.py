"""Reads the objects of dynamic resource allocation. What Muster does not understand is refused by
name: a device that it would misjudge could be given away twice.
"""
