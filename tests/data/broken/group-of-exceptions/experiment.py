from checks import shape, width


def check(image):
    errors = []
    for one in (width, shape):
        try:
            one(image)
        except Exception as error:
            errors.append(error)
    raise ExceptionGroup("image", errors)


check({"width": -3})
