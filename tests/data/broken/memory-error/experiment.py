from features import kernel

print(len(kernel(10**9)))
