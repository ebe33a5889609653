"""Lists and watches: how objects of the API become events for ingest. Writes are in `writing`."""
