from concurrent.futures import ThreadPoolExecutor

RESULTS = {}


def keep(future):
    RESULTS.append(future.result())


with ThreadPoolExecutor(1) as pool:
    pool.submit(len, "abc").add_done_callback(keep)
raise SystemExit(not RESULTS)
