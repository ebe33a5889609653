"""Implementations of the port `Bus`: memory, SQLite and Kafka."""
