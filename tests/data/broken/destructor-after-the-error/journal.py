class Journal:
    def __del__(self):
        self.close()

    def close(self):
        raise OSError("journal was never opened")
