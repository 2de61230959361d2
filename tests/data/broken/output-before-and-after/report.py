def best(scores):
    print("scores:", scores)
    return max(scores)
