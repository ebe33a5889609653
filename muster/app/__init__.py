"""The mesh put together: members, pacing, and how it runs in one process or on a live cluster."""
