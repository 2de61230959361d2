from stages.data import split


def evaluate(name):
    try:
        return split(name)
    except OSError as error:
        raise LookupError(f"no split {name}") from error
