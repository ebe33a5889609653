"""What followed owners count."""
