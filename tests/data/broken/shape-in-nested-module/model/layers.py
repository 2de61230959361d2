import numpy as np


class Linear:
    def __init__(self, inputs, outputs):
        self.weight = np.zeros((inputs, outputs))
        self.bias = np.zeros(outputs)

    def __call__(self, x):
        return x @ self.weight + self.bias
