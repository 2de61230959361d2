import multiprocessing


def produce(queue, items):
    for item in items:
        queue.put(1 / item)


def main():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=produce, args=(queue, [0]))
    worker.start()
    worker.join()
    print(queue.get(timeout=0.05))


if __name__ == "__main__":
    main()
