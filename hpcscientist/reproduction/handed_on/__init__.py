"""An idea's folder without its campaign: is it whole, and does it come out again?"""
