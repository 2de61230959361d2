"""Running a claim again: is what was recorded whole, and does it come out again?"""
