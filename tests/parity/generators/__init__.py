"""Generators of cases: each draws a case from a seed, the same on every machine.

`kinds` lists them. A module that draws nodes, pods or other objects belongs here; nothing here
knows an answer.
"""
