"""Buses: memory, SQLite and Kafka without a broker; tests/contract has what all of them keep."""
