def train(epochs):
    for epoch in range(epochs):
        loss = 1 / (epoch + 1)
	print(loss)


train(3)
