"""Reviews and comparisons of papers by models, with measurements of their errors.

Nothing here feeds back: campaigns neither select ideas nor write papers by a reviewer's scores.
"""
