import logging


def step(number):
    if number == 1:
        logging.warning("slow step %d", number, stack_info=True)
    return 1 / (2 - number)


for number in range(3):
    step(number)
