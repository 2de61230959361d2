def kernel(rows):
    return bytearray(8 * rows * rows)
