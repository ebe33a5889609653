"""One file per plugin: rules, messages, golden scores."""
