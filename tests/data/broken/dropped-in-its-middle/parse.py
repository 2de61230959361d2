def expression(text, depth):
    return term(text, depth + 1)


def term(text, depth):
    if depth > 0:
        return expression(text + "(", depth)
    return text
