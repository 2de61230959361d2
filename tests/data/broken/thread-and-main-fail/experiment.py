import threading

LOADED = {}


def load():
    LOADED["inputs"] = open("no-such-file.csv").read()


thread = threading.Thread(target=load, name="loader")
thread.start()
thread.join()
print(len(LOADED["inputs"]))
