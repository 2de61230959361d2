import multiprocessing


def best(shared):
    return shared["best"]


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Manager() as manager:
        best(manager.dict())
