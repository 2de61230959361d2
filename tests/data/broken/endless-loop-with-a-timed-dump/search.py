def descend(step):
    value = 1.0
    return until_small(step, value)


def until_small(step, value):
    while value > 0:
        value = abs(step(value))
    return value
