import traceback


def metric(name):
    if name != "accuracy":
        traceback.print_stack()
        print("rare metric")
    return {"accuracy": 1.0}


def report(names):
    return [metric(name) for name in names][-1][names[-1]]


report(["accuracy", "f1"])
