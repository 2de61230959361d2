import warnings

import numpy as np

warnings.simplefilter("error")


def entropy(shares):
    return -np.sum(shares * np.log(shares))


entropy(np.array([0.0, 1.0]))
