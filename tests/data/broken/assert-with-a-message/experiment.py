def trace(rows):
    shape = (len(rows), len(rows[0]))
    assert shape[0] == shape[1], f"{shape} is not square"
    return sum(rows[i][i] for i in range(shape[0]))


trace([[1, 2, 3], [4, 5, 6]])
