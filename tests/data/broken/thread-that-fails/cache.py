import errno


def fill(count):
    for number in range(count):
        store(number)


def store(number):
    if number:
        raise OSError(errno.ENOSPC, "no space left for the cache")
