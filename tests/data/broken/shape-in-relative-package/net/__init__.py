from .encoder import Transformer

__all__ = ["Transformer"]
