WIDTH = 64


class Config:
    width = WIDTH

    class Model:
        sizes = (WIDTH, WIDHT // 2)

    depth = 2
