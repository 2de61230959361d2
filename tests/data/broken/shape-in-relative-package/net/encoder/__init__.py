from .blocks import Block


class Transformer:
    def __init__(self, heads, width):
        self.blocks = [Block(heads, width) for _ in range(3)]

    def forward(self, batch):
        for block in self.blocks:
            hidden = block.attend(batch)
        return hidden
