from dataclasses import dataclass


@dataclass
class Options:
    epochs: int
    rate: float = 0.1

    def __post_init__(self):
        self.check()

    def check(self):
        if self.epochs < 1:
            raise ValueError(f"{self.epochs} epochs")
