from utils import load

print(load("x"))
