TRIALS = [{"score": 1}, {}]
BY = {"score": lambda trial: -trial["score"]}


def ranked(trials, by):
    return sorted(trials, key=BY[by])


ranked(TRIALS, "score")
