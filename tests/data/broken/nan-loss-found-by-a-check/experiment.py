import math

from checks import finite


def train(rate):
    weight = 1.0
    for epoch in range(5):
        loss = weight * math.inf * 0.0 if epoch else weight
        finite(loss, epoch)
        weight -= rate * loss
    return weight


train(0.1)
