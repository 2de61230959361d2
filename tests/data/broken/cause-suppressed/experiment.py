OPTIMISERS = {"adam": 1, "sgd": 2}


def optimiser(name):
    try:
        return OPTIMISERS[name]
    except KeyError:
        raise ValueError(f"unknown optimiser {name!r}") from None


optimiser("adamw2")
