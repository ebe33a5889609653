"""Tests of how real servers are installed and kept: no server is started."""
