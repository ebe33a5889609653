"""Unit tests of how real servers are installed and run: no server is started."""
