"""Unit tests on virtual time, under two seconds each."""
