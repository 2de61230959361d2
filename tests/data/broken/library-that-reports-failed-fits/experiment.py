import warnings

from sklearn.model_selection import cross_val_score

from centred import Centred

warnings.simplefilter("ignore")
INPUTS = [[0.0], [1.0], [2.0], [3.0]]
print(cross_val_score(Centred(), INPUTS, [0, 1, 0, 1], cv=2))
