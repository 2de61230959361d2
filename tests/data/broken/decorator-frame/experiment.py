from guards import positive


@positive
def train(rate):
    return rate


train(-1)
