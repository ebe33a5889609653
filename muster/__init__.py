"""The command line only: run, serve, simulate, replay, explain; holds no scheduling logic."""
