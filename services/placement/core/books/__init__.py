"""The ledger of pods and the charges on nodes, always written together."""
