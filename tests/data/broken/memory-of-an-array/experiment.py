import numpy as np


def distances(points):
    return np.zeros((points, points), dtype=np.float64)


print(distances(10**9).sum())
