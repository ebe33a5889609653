"""Plugin interfaces, profiles and configuration of the scheduling cycle; pure, no plugins."""
