"""HTTP extenders: the client, its questions and the answers."""
