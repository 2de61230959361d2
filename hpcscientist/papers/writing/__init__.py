"""Has a model write a manuscript from the facts, the ideas' records and the library."""
