"""Buses: memory, SQLite and Kafka without a broker. Rules that all of them keep belong in
tests/contract.
"""
