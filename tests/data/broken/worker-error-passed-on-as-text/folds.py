def evaluate(fold):
    return fold_of(fold)


def fold_of(number):
    raise LookupError(f"no fold {number}")
