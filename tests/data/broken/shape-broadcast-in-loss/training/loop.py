from training import losses


def fit(predicted, labels, epochs):
    rates = range(epochs)
    return list(map(lambda epoch: losses.loss("mse", predicted * 0.9**epoch, labels), rates))
