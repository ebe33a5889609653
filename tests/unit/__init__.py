"""Unit tests, one folder per package, in virtual time and under two seconds each. The folders
`live`, `loadtest` and `servers` test the tools of the other tests.
"""
