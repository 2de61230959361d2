def rows():
    try:
        yield 1
        yield 2
    finally:
        yield 3


def first():
    return next(iter(rows()))


TOTALS = {"count": first()}
print(TOTALS["total"])
