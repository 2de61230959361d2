import traceback


def epoch(number):
    return [0.1, 0.2][number + 2]


well = 0
for number in range(3):
    try:
        epoch(number)
        well += 1
    except IndexError:
        traceback.print_exc()
if not well:
    raise RuntimeError(f"{well} of {number + 1} epochs went well")
