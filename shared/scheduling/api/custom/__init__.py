"""The contract of a user's plugin: its methods, arguments and what they may return."""
