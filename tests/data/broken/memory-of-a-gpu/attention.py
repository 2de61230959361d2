import torch


def attend(length):
    query = torch.randn(8, length, 64, device="cuda")
    scores = query @ query.transpose(1, 2)
    return torch.softmax(scores, dim=-1) @ query
