import numpy as np

from training.loop import fit

rng = np.random.default_rng(1)
history = fit(rng.normal(size=(16, 10)), rng.integers(0, 10, size=16), epochs=2)
print(history)
