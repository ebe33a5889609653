"""Resource claims: what is read, what selectors mean, which devices a claim gets."""
