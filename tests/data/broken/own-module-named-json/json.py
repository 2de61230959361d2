def write(path, value):
    with open(path, "w") as file:
        file.write(repr(value))
