def first(items):
    return items[0]


def pick(items):
    return first(items) if items else items[1]
