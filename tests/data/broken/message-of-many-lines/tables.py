class MissingColumns(KeyError):
    def __str__(self):
        lines = "\n".join(f"  {name!r} is not there" for name in self.args)
        return f"columns are missing:\n{lines}\nNote: names are case sensitive\nError: 2"


class Table:
    def __init__(self, columns):
        self.columns = columns

    def select(self, *names):
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise MissingColumns(*missing)
        return [self.columns[name] for name in names]
