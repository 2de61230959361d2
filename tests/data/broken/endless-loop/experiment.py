def converge(value):
    epoch = 0
    while value > 0.0:
        epoch += 1
        if epoch == 1:
            print("epoch", epoch, flush=True)
        value = max(value, 1.0)
    return value


converge(3.0)
