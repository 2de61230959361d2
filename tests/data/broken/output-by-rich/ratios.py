def ratio(a, b):
    def size(items):
        return len(items)

    return size(a) / size(b)
