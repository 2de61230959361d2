from sklearn.base import BaseEstimator, ClassifierMixin


class Centred(ClassifierMixin, BaseEstimator):
    def fit(self, inputs, targets):
        self.centre_ = self.centre(inputs)
        return self

    def centre(self, inputs):
        return inputs[0] - 0.5
