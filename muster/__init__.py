"""The command line and the tools around the services; holds no scheduling logic."""

__version__ = "0.2.0"
