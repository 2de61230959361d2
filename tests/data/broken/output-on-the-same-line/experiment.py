import sys


def train(epochs):
    for epoch in range(epochs):
        sys.stderr.write(f"\repoch {epoch}/{epochs} |{'#' * epoch:6}|")
        sys.stderr.flush()
        {0: 1, 1: 1, 2: 1, 3: 1}[epoch]


train(6)
