def mittel(werte):
    return sum(werte) / len(werte)
