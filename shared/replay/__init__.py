"""What recorded journals can be asked: replay (fold and re-decide) and stories. It reads only."""
