"""Papers judged by models: reviews, comparisons, and how far these err. Nothing here feeds back:
campaigns neither select nor write by what a reviewer says.
"""
