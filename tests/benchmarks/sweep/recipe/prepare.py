"""Numbers and whether they are odd. `--out DIR`."""

import random
import sys
from pathlib import Path

out = Path(dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))["--out"])
for split, numbers in (("validation", range(100, 300)), ("test", range(300, 500))):
    for kind in ("public", "private"):
        (out / kind / split).mkdir(parents=True)
    shown = random.Random(1).sample(numbers, len(numbers))
    (out / "public" / split / "inputs.txt").write_text(" ".join(map(str, shown)))
    labels = "".join(f"{n},{n % 2}\n" for n in numbers)
    (out / "private" / split / "labels.csv").write_text(labels)
(out / "public" / "train").mkdir()
(out / "public" / "train" / "pairs.csv").write_text("".join(f"{n},{n % 2}\n" for n in range(100)))
