import numpy as np


class Ridge:
    def __init__(self, penalty):
        self.penalty = penalty

    def fit(self, inputs, targets):
        inputs = np.asarray(inputs)
        gram = inputs.T @ inputs + self.penalty * np.eye(inputs.shape[1])
        self.weights = np.linalg.solve(gram, inputs.T @ targets)
        return self
