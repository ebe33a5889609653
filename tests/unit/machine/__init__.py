"""The machine on a toy core: claims, voids, recovery, snapshots, cutting, reset."""
