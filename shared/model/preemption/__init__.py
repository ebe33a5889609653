"""What preemption decides by and says: victims, and the place of other plugins beside it."""
