import multiprocessing

from parallel import spread


def main():
    def score(x):
        return x + 1

    print(spread(score, [1, 2]))


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
