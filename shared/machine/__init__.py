"""The event-sourcing machine: records, claims, cursors, snapshots, the one loop. It knows no
scheduling.
"""
