import torch


def negative_log(x):
    return (x * torch.log(x * 0)).sum()
