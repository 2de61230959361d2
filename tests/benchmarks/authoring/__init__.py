"""`benchmarks authoring`: what a repair is worth that is shown more than the end of an output.

Dolphin's table 5 (arXiv 2501.03916), rerun on any recipe and model: `preparing` checks and lays
out a folder, `trying` has the ideas written, run and fixed, `figures` says what came of it,
`paired` how sure that is, and `cost` what it may take.
"""
