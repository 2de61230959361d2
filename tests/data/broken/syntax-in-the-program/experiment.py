import math


def rate(step):
    return 0.1 * math.exp(-step


rate(3)
