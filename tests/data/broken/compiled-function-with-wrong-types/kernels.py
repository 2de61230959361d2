import numba


@numba.njit
def total(values):
    found = 0.0
    for i in range(3):
        found += values[i]
    return found
