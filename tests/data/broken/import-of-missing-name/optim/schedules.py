def cosine(steps):
    return [1.0 for _ in range(steps)]
