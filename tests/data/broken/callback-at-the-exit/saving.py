def save(path):
    with open(path, "w") as file:
        file.write("{}")
