from journal import Journal


def check(classes, names):
    if classes != len(names):
        raise ValueError(f"{classes} classes, {len(names)} names")


journal = Journal()
check(3, "abcd")
