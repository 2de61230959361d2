from settings import Config

REGISTRY = {"base": Config}
