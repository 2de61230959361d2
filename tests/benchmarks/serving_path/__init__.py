"""`benchmarks serving-path`: what stands before an engine, beside it, at a GPU's speed."""
