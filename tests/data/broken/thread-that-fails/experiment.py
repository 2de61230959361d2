import threading

from cache import fill

thread = threading.Thread(target=fill, args=(3,))
thread.start()
thread.join()
raise SystemExit(2)
