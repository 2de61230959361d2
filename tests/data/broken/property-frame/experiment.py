class Meter:
    def __init__(self):
        self.total, self.count = None, 3

    @property
    def mean(self):
        return self.total / self.count


print(f"mean {Meter().mean:.3f}")
