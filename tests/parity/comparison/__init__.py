"""Muster's answers, their comparison with the oracle's, and what a set of cases covers.

`mesh_runs`, `preemption_runs` and `volume_runs` turn the journals of whole runs into questions.
No test belongs here.
"""
