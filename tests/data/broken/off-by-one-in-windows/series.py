def windows(values, size):
    found = []
    for start in range(len(values) - size + 1):
        found.append(target(values, start + size))
    return found


def target(values, where):
    return values[where]
