def accuracy(predicted, wanted):
    assert len(predicted) == len(wanted)
    return sum(p == w for p, w in zip(predicted, wanted)) / len(wanted)
