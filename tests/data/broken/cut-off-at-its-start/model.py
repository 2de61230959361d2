import torch


class Head:
    def forward(self, x):
        return x @ torch.zeros(256, 10)
