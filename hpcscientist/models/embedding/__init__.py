"""Texts as vectors, by a model or by their words, and exact search among them."""

# The embedder that needs no model, as campaigns record it. Here, since its module imports NumPy.
KEYWORDS = "keyword vectors"
KEYWORDS_FINGERPRINT = "words and pairs, 2^20 columns"
