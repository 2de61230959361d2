from torch.utils.data import DataLoader

from corpus import Corpus


def train(loader):
    for batch in loader:
        yield batch.mean()


print(list(train(DataLoader(Corpus(), num_workers=2))))
