from contextlib import contextmanager


@contextmanager
def retrying():
    while True:
        try:
            yield
        except ValueError:
            pass


def load():
    with retrying():
        int("three")


load()
