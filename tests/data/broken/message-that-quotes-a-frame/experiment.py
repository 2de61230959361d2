def build(sizes):
    where = '  File "experiment.py", line 1, in build'
    if 0 in sizes:
        raise SystemError(f"layer {sizes.index(0)} was built at {where}")
    return sizes


build([4, 8, 0])
