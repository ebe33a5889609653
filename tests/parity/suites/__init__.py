"""The tests: each suite compares the cases of a kind, and plants bugs that they must notice.

Tests with objects written by hand belong here too; what draws objects belongs in `generators`.
"""
