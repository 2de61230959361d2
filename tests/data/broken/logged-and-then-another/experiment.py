import logging

from loading import load

logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")


def total(rows):
    return rows / 2


rows = load("train.csv")
print(total(rows))
