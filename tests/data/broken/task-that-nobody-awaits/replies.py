async def parse(number):
    text = ""
    return check(text, number)


def check(text, number):
    if not text:
        raise ValueError(f"reply {number} is empty")
    return text
