from registry import REGISTRY


class Config:
    names = tuple(REGISTRY)
