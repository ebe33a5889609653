"""Trials of `muster run` that take minutes: kills, other schedulers, growth (`make soak`)."""
