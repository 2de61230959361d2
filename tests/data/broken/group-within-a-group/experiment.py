def shard(number):
    if number % 2 == 0:
        raise OSError(f"shard {number}")
    raise ValueError(f"shard {number}")


def gather(call, items):
    errors = []
    for item in items:
        try:
            call(item)
        except Exception as error:
            errors.append(error)
    raise ExceptionGroup(f"{len(errors)} of {len(items)}", errors)


def worker(number):
    gather(shard, [number, number + 1])


gather(worker, [1])
