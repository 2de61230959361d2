def größe(wert):
    if wert < 0:
        raise ValueError(f"Größe «−{-wert}» ist negativ: 大きさ")
    return wert


print("α = 0.1, β = 0.9 ✓")
größe(-3)
