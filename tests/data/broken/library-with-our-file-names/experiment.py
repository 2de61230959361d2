import vision

from utils import pick


def evaluate(items):
    return vision.utils.apply(pick, items)


evaluate([])
