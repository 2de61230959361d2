import warnings


def halves(items):
    warnings.warn("odd number of items", UserWarning, stacklevel=2)
    left, right = items[: len(items) // 2], items[len(items) // 2 :]
    a, b = right
    return a, b
