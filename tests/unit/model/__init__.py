"""The vocabulary: values and columns."""
