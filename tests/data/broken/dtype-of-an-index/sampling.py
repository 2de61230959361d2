import numpy as np


def batches(inputs, size):
    order = np.linspace(0, len(inputs) - 1, len(inputs))
    for start in range(0, len(inputs), size):
        yield take(inputs, order[start : start + size])


def take(inputs, where):
    return inputs[where]
