from torch.utils.data import DataLoader

from data.images import Images


def main():
    loader = DataLoader(Images("train"), batch_size=128, num_workers=4)
    for step, (inputs, labels) in enumerate(loader):
        print(step, inputs.shape, labels.shape)


if __name__ == "__main__":
    main()
