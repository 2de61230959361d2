from torch import nn


class Classifier(nn.Module):
    def __init__(self, vocabulary, classes, width=128):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        hidden = self.embedding(tokens).mean(dim=1)
        return self.head(hidden)
