"""Scores the rehearsal with 1: the trial only has to run to its end."""

import json

print(json.dumps({"ran": 1.0}))
