import math


class Diverged(ArithmeticError):
    pass


def finite(loss, epoch):
    if not math.isfinite(loss):
        raise Diverged(f"loss is {loss} at epoch {epoch}")
