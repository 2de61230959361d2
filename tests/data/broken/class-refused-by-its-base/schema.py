class Table:
    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        checked(cls)


def checked(kind):
    if not hasattr(kind, "key"):
        raise TypeError(f"{kind.__name__} has no key")
