from functools import partial


def augment(image, strength):
    return [value * strength for value in image]


pipeline = [partial(augment, strength=2), partial(augment, strength=3)]


def apply(image, steps):
    for step in steps:
        image = step(image, 4)
    return image


apply([1], pipeline)
