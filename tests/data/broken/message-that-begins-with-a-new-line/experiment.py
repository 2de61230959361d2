def compare(a, b):
    if a != b:
        raise ValueError(f"""
Shapes differ:
    left:  {a}
    right: {b}
""")


compare((3, 4), (4, 3))
