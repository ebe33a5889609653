"""The core of permit: one transaction for each attempt of a gang, as a pure state machine."""
