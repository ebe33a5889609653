"""The command line only: run, serve, simulate, replay, explain; holds no scheduling logic."""

__version__ = "0.1.0"
