class Wrapped:
    def __init__(self, inner):
        self.inner_ = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


print(Wrapped([1]).append)
