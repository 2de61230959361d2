"""A benchmark that plants known errors in correct papers, each with a clean twin."""
