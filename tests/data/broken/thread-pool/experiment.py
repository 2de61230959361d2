from concurrent.futures import ThreadPoolExecutor


def best(scores):
    for score in scores:
        if score > 0.5:
            top = score
    return top


with ThreadPoolExecutor(2) as pool:
    print(list(pool.map(best, [[0.9], [0.1]])))
