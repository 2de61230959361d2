RULE = "weight = weight - rate *"


def compiled(rule):
    return compile(rule, "<rule>", "exec")


compiled(RULE)
