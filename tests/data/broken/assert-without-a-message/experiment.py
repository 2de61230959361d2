from metrics import accuracy

print(accuracy([0, 1], [0, 1, 1]))
