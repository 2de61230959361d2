import atexit
import sys

from report import best

print("=" * 20, "Traceback of losses: 3 2 1", "=" * 20, flush=True)
print('{"File": "experiment.py", "line": 4}', flush=True)
print("Error: 0.25 (validation error, falling)", flush=True)
atexit.register(lambda: print("cleaning up\nCleaned: yes\n  File list: 0 entries", file=sys.stderr))
best([])
