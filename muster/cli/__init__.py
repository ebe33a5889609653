"""The command line: commands, options, addresses, display and errors. No scheduling logic."""
