import sys

sys.stderr.reconfigure(encoding="ascii", errors="backslashreplace")
maße = {"breite": 3}


def fläche(maße):
    return maße["breite"] * maße["höhe"]


fläche(maße)
