def descend(value):
    return until_small(value)


def until_small(value):
    while value > 0: print("searching", flush=True)
