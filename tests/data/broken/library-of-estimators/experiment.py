from sklearn.linear_model import LogisticRegression

INPUTS = [[0.0], [1.0], [2.0], [3.0]]


def fit(model):
    return model.fit(INPUTS[:4], [0, 1, 1])


fit(LogisticRegression())
