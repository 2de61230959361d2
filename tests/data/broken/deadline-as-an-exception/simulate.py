import signal


def simulate(step):
    for _ in range(100):
        step(signal.SIGALRM)
