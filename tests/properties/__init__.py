"""Property tests: random inputs and interleavings against a model or an invariant. The name of a
test states the property.
"""
