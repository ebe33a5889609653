"""permit's core, case by case."""
