"""The simulated cluster, alone and served to other processes."""
