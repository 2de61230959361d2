class Buffer:
    def __del__(self):
        self.free(self.handle)


def load():
    buffer = Buffer()
    del buffer
    return None


print(load()["rows"])
