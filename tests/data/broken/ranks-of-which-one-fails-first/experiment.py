import os

import torch
import torch.distributed as dist

from batches import batch


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loss = torch.tensor(float(batch(rank)))
    dist.all_reduce(loss)


if __name__ == "__main__":
    main()
