import os

print("no GPU, leaving", flush=True)
os._exit(3)
