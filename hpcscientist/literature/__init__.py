"""Known work: the library of papers and code, its search, the survey, and the resource analyst."""
