import faulthandler
import threading

first, second = threading.Lock(), threading.Lock()
both = threading.Barrier(2)


def take(one, other):
    with one:
        both.wait()
        with other:
            return True


faulthandler.dump_traceback_later(600, exit=True)
thread = threading.Thread(target=take, args=(first, second), daemon=True)
thread.start()
take(second, first)
