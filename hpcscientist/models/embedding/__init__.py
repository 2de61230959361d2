"""Texts as vectors, by a model or by their words, and exact search among them."""
