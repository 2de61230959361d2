"""The indexes of a library, for words, vectors, formulas and code: building and searching them."""
