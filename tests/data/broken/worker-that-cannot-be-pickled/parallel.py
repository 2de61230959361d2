import multiprocessing


def spread(function, items):
    with multiprocessing.Pool(1) as pool:
        return pool.map(function, items)
