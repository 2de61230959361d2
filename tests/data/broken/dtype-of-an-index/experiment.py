import numpy as np

from sampling import batches

inputs = np.arange(20.0).reshape(10, 2)
for batch in batches(inputs, size=4):
    print(batch.sum())
