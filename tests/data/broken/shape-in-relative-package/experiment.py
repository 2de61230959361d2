from net import Transformer

model = Transformer(heads=8, width=24)
for layer in range(2):
    hidden = model.forward(4)
