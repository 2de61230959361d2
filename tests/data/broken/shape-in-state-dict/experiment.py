import torch

from models.net import Net


def restore(path):
    net = Net(classes=100)
    net.load_state_dict(torch.load(path, weights_only=True))
    return net


restore("checkpoint.pt")
