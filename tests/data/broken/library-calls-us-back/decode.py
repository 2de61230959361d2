def quantity(found):
    if "value" in found:
        return unit(found)
    return found


def unit(found):
    return found["value"], found["unit"]
