"""Writing: from facts, claims and the library to a manuscript, with a model that writes."""
