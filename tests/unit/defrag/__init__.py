"""Plans that move pods together."""
