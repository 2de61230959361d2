import faulthandler
import threading

from reader import read

faulthandler.enable()
thread = threading.Thread(target=read)
thread.start()
thread.join()
