import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from folds import evaluate


def main():
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        futures = [pool.submit(evaluate, fold) for fold in range(3)]
        return collect(futures)


def collect(futures):
    scores = []
    for future in futures:
        scores.append(future.result())
    return scores


if __name__ == "__main__":
    main()
