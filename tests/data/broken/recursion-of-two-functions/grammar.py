def expression(text):
    return term(text[1:])


def term(text):
    return expression(text + "()")
