def batches(sizes):
    for size in sizes:
        yield 12 / size


def normalised(stream):
    yield from (value / 12 for value in stream)
