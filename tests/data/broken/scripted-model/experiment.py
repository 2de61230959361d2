import torch

from net import project

print(project(torch.ones(4, 3), torch.ones(4, 2)))
