import warnings

import numpy as np

from split import halves

warnings.simplefilter("always")
warnings.warn('File "experiment.py", line 5, in halves', stacklevel=1)
print(np.log(np.zeros(1)))
first, second = halves([1])
