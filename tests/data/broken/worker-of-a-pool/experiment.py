import multiprocessing

from scoring import score

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(score, [4, 2, 0]))
