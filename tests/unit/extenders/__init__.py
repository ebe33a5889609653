"""HTTP extenders: the client, and what is asked and answered."""
