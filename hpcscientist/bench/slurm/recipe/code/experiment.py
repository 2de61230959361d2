"""The candidate's code: sleeps as long as its data say, then predicts."""

import sys
import time

given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
with open(f"{given['--data']}/seconds.txt") as file:  # noqa: PTH123
    time.sleep(float(file.read()))
with open(f"{given['--out']}/predictions.csv", "w") as file:  # noqa: PTH123
    file.write("1\n0\n1\n0\n")
