import os
import signal

print("loading shard 7", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
