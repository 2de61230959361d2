import json
import sys
import traceback

from rows import check

try:
    check(2, 3)
except ValueError:
    print(json.dumps({"status": "failed", "error": traceback.format_exc()}))
    sys.exit(1)
