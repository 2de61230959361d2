"""The indexes of a library: words, vectors, formulas and code; how they are kept and searched."""
