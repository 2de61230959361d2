import sys
import traceback


def show(kind, error, trace):
    for line in traceback.format_exception(kind, error, trace):
        for part in line.splitlines():
            print(f"\x1b[K\x1b[1;31m{part}\x1b[0m", file=sys.stderr)


sys.excepthook = show


def mean(values):
    return sum(values) / 2


print("\x1b[32mstarting\x1b[0m", flush=True)
mean(3)
