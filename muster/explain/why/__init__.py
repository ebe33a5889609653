"""Answers of `muster why`, folded and searched from the journals of a live or ended run. What
prints them is in muster/cli/commands.
"""
