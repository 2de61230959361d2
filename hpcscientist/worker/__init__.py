"""What runs on a compute node: one trial, from spec.json to result.arrow. No model code."""

MODULE = __name__
