"""Scores the rehearsal: it ran to its end, which is all that is asked of it."""

import json

print(json.dumps({"ran": 1.0}))
