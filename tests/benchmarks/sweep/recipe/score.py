"""The share of right answers. `--predictions FILE --labels DIR`."""

import json
import sys
from pathlib import Path

args = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
labels = dict(row.split(",") for row in Path(args["--labels"], "labels.csv").read_text().split())
given = dict(row.split(",") for row in Path(args["--predictions"]).read_text().split()[1:])
if given.keys() != labels.keys():
    print("not every id is predicted", file=sys.stderr)
    sys.exit(3)
print(json.dumps({"accuracy": sum(given[i] == labels[i] for i in labels) / len(labels)}))
