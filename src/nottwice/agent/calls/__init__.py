"""The calls that a model asks for: in which order, with which results, told in which words."""
