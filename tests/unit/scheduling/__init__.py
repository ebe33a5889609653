"""The placement framework: table, signatures, ledgers, kernel."""
