"""Limits of queues of pods: what is charged to them, and what waits because one is at its max."""
