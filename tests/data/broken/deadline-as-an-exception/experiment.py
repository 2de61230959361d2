import signal

from simulate import simulate


def stop(number, frame):
    raise TimeoutError("over the time limit")


signal.signal(signal.SIGALRM, stop)
simulate(signal.raise_signal)
