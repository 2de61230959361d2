import rates

rates.rate(2)
