import torch
from torch import nn

from model import Classifier


def train_step(model, tokens, labels, optimizer):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    model = Classifier(vocabulary=1000, classes=4).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    tokens = torch.randint(0, 1200, (32, 64), device="cuda")
    labels = torch.randint(0, 4, (32,), device="cuda")
    print(train_step(model, tokens, labels, optimizer))


if __name__ == "__main__":
    main()
