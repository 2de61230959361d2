from kernels import total

print(total(3.0))
