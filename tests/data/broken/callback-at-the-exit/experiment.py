import atexit

from saving import save

atexit.register(save, "absent/scores.json")
print("done")
