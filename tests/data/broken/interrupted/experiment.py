import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)


def evaluate():
    for fold in range(3):
        os.kill(os.getpid(), signal.SIGINT)


evaluate()
