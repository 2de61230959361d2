class Plateau(Exception):
    pass


def watch(losses):
    if len(set(losses)) == 1:
        raise Plateau
