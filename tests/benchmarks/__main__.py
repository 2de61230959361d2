"""`python tests/benchmarks NAME`; see command_line."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # where the package `benchmarks` lies

from benchmarks.command_line import run  # noqa: E402

sys.exit(run(sys.argv[1:]))
