def schedule(step, total):
    return 0.5 * (1 + math.cos(math.pi * step / total))


for step in range(10):
    rate = schedule(step, 10)
