import torch

from net import Net

model = torch.compile(Net(), fullgraph=True)
model(torch.ones(3))
