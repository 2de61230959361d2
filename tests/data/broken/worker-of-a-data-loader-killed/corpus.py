import torch


class Corpus:
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return torch.zeros(10**9)
