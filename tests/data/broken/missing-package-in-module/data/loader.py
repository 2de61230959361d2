import os

import torch_geometric_of_tomorrow as tg


def load():
    return tg.datasets, os.sep
