"""Make recordings anew, on the development cluster that is up.

    python tests/scheduler/record.py [CASE ...]

As root. Without names it records every one that is missing.

A case's recording is written only when the case itself came out as it should.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parent / "execution", HERE.parent / "slurm"):
    sys.path.insert(0, str(folder))

from cases import CASES  # noqa: E402
from real_world import RealWorld  # noqa: E402
from recordings import path_of  # noqa: E402
from slurm_kit import close_cluster, open_cluster, why_not  # noqa: E402


def main() -> int:
    """Record the cases that are named."""
    reason = why_not()
    if reason is not None:
        sys.exit(reason)
    wanted = sys.argv[1:] or [
        n for n, c in CASES.items() if not c.by_hand and not path_of(n).exists()
    ]
    os.environ["HPCTEST_USER"] = getpass.getuser()  # cases drive from this very process
    cluster, failed = open_cluster(), 0
    try:
        for name in wanted:
            world = RealWorld(name, cluster, cluster.make_folder())
            try:
                asyncio.run(asyncio.wait_for(CASES[name].play(world), 400))
                path_of(name).write_text(world.recording.text())
                print(f"{name}: recorded", flush=True)
            except Exception:  # noqa: BLE001 (the other cases are recorded all the same)
                traceback.print_exc()
                print(f"{name}: FAILED\n{world.recording.text()}", flush=True)
                failed += 1
            finally:
                world.close()
    finally:
        close_cluster(cluster)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
