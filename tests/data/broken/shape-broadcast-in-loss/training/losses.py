import numpy as np

LOSSES = {
    "mse": lambda predicted, wanted: np.mean((predicted - wanted) ** 2),
    "mae": lambda predicted, wanted: np.mean(np.abs(predicted - wanted)),
}


def loss(name, predicted, wanted):
    return LOSSES[name](predicted, wanted)
