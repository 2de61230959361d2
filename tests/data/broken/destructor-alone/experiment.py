import sys


class Pool:
    def __del__(self):
        for worker in self.workers:
            worker.stop()


pool = Pool()
del pool
sys.exit(1)
