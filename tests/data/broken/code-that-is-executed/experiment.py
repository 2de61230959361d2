RULES = {"momentum": "velocity = beta * velocity - rate * gradient"}


def update(rule, **state):
    exec(RULES[rule], state)
    return state["velocity"]


update("momentum", velocity=0.0, rate=0.1, gradient=1.0)
