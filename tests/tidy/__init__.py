"""Style and repository rules checked by tests."""
