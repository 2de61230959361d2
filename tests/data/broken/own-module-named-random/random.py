"""Our own draws; stands before the standard library's module of this name."""

import os

SEED = os.cpu_total()


class Random:
    pass
