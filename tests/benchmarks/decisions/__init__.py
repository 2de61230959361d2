"""`benchmarks null` and `benchmarks power`: how often decisions about simulated ideas are right.

Values are drawn, for only then is it known what is true of each idea; they are decided on by the
code that decides in a campaign. `world` draws, `judging` decides, `counting` counts, `null`,
`power` and `effort` say what is drawn and counted, `plot` draws the figure.
"""
