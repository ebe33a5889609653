"""Event-sourcing machine: records, claims, cursors, snapshots, the one loop; no domain words."""
