import sys

try:
    1 / 0
except ZeroDivisionError as error:
    sys.exit(f"cannot go on: {error}")
