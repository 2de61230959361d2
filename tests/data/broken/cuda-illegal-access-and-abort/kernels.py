import torch


def gather(x):
    return torch.ops.ours.gather(x, 99)
