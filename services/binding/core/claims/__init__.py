"""Resource claims of open binds: written before the bind, given back when the bind fails."""
