import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor


def work(n):
    os._exit(n)


def main():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        return pool.submit(work, 9).result()


if __name__ == "__main__":
    main()
