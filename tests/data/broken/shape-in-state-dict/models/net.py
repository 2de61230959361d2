from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(128, classes)
