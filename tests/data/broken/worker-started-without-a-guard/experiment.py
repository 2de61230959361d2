import multiprocessing


def work(n):
    return n * n


context = multiprocessing.get_context("spawn")
process = context.Process(target=work, args=(3,))
process.start()
process.join()
raise SystemExit(process.exitcode)
