import functools


def positive(function):
    @functools.wraps(function)
    def guarded(rate):
        if rate <= 0:
            raise ValueError("rate must be positive")
        return function(rate)

    return guarded
