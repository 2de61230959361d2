import vision


def load(name):
    return vision.read(name)
