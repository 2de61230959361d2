"""Runs one trial on a compute node, from spec.json to result.arrow. Imports no model code."""

MODULE = __name__
