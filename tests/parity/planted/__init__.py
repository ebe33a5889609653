"""Planted bugs: small changes of the plugins, each of which must make a case differ.

A change belongs in the module named after the cases that show it; `patching` plants one at a time.
"""
