"""preemption's core, case by case."""
