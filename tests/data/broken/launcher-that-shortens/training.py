def fit(config):
    rate = config.optimizer.lr
    return rate
