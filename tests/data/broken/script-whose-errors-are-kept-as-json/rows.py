def check(rows, labels):
    if rows != labels:
        raise ValueError(f"{labels} labels for {rows} rows")
