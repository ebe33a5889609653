"""Which pod stands where: the ledger of pods and the charges on nodes, always written together."""
