from model.layers import Linear


class Network:
    def __init__(self, width, classes):
        self.hidden = Linear(64, width)
        self.output = Linear(64, classes)

    def predict(self, x):
        return self.output(np_relu(self.hidden(x)))


def np_relu(x):
    return x * (x > 0)
