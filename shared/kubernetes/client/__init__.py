"""Requests to one API server: connections, credentials, discovery, permissions and the Lease."""
