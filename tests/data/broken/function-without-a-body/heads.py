def build():
    return []


def attention(query, key, value):
    # as in the paper
