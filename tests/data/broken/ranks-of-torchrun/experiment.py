import os

import torch
import torch.distributed as dist

from parallel import wrap


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    model = wrap(torch.nn.Linear(8, 2), rank)
    model(torch.zeros(4, 8))


if __name__ == "__main__":
    main()
