from stages import evaluation


def trial():
    try:
        return evaluation.evaluate("validation")
    except LookupError as error:
        raise RuntimeError("trial failed") from error


trial()
