"""HTTP extenders: the configured values, the port, and the client that calls them."""
