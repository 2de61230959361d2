def first(items, wanted):
    return next(item for item in items if item == wanted)


first(["train", "test"], "validation")
