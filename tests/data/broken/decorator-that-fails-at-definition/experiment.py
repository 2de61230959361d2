from retrying import retry


@retry()
def train(rate):
    return rate


train(1)
