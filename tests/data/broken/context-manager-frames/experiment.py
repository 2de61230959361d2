from timing import Timer, timers


def main():
    with Timer("all"):
        raise KeyError("step")


main()
