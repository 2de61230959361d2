import numpy as np

from model.network import Network


def main() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(8, 64))
    network = Network(width=32, classes=10)
    print(network.predict(inputs).mean())


main()
