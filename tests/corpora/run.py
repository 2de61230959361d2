"""Print a line for each case: `python tests/corpora/run.py [NAME ...]`.

The exit code is 1 if a case fails.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import corpus_kit


def main(wanted: list[str]) -> int:
    """Run the corpora that are named, or all of them."""
    failed = total = 0
    for name in wanted or corpus_kit.names():
        for case in corpus_kit.cases(name):
            try:
                found = case.read()
            except Exception as error:  # noqa: BLE001 - a crash is a case that fails
                found = error
            good = found == case.expected
            total, failed = total + 1, failed + (not good)
            print(f"{'ok  ' if good else 'FAIL'} {name}: {case.name}", end="")
            print("" if good else f": {found!r} instead of {case.expected!r}")
    print(f"{total - failed} of {total} cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
