import numpy as np

held = []
while True:
    held.append(np.ones(10**8))
    print(f"holding {len(held)} blocks", flush=True)
