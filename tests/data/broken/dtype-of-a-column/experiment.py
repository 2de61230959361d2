import numpy as np

ROWS = [["1.0", "0"], ["2.5", "1"], ["n/a", "1"]]


def features(rows):
    return np.asarray([row[0] for row in rows], dtype=np.float64)


print(features(ROWS).mean())
