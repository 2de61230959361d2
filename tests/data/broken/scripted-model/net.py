import torch


@torch.jit.script
def project(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    hidden = x * 2
    projected = torch.mm(hidden, weight)
    return torch.relu(projected)
