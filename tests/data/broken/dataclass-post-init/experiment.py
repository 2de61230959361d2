from options import Options

print(Options(epochs=0))
