def rate(step):
    return 1 / step


print([rate(step) for step in (2, 1)], rate(0))
