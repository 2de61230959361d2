import numpy as np


def one_hot(labels, classes):
    encoded = np.zeros((len(labels), classes))
    encoded[np.arange(len(labels)), labels] = 1
    return encoded


labels = np.array([1, 2, 3])
print(one_hot(labels, classes=len(set(labels))))
