LABELS = [[0, 1], [0, 0], [1, 1]]


def evaluate(fold):
    if 1 not in LABELS[fold]:
        raise ValueError(f"fold {fold} has no positive label")
    return sum(LABELS[fold])
