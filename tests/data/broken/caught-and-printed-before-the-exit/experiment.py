import sys
import traceback


def shape(values, axis):
    return (len(values), 1)[axis]


try:
    shape([1], 2)
except IndexError:
    traceback.print_exc()
    print("giving up")
    sys.exit(1)
