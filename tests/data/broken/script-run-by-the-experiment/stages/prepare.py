def split(rows, share):
    cut = round(len(rows) * share)
    return rows[:cut], rows[cut:][0]


train, test = split([1, 2, 3], 1.0)
