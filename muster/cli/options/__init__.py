"""Options that several commands share, those of the services, and the release to decide like."""
