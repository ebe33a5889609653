"""One suite per port that every implementation passes."""
