def run(fold):
    rows = list(range(3 - fold))
    if not rows:
        raise ValueError(f"fold {fold} is empty")
    return rows
