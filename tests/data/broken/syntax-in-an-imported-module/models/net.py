def build():
    layers = []
    for width in (64, 32):
        layers.append((width,
                       width // 2])
    return layers
