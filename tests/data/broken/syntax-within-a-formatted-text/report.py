def line(epoch):
    rate = 0.1
    return f"epoch {epoch}: rate {rate epoch}"
