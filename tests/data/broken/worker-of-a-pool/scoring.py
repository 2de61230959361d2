def score(size):
    return normalised(1, size)


def normalised(total, size):
    return total / size
