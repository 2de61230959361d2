def width(image):
    if image["width"] < 0:
        raise ValueError("width below zero")


def shape(image):
    return image["width"], image["height"]
