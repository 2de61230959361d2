REPORT = '''Traceback (most recent call last):
  File "/old/run/experiment.py", line 7, in <module>
    train(epochs=200)
  File "/old/run/experiment.py", line 12, in train
    raise MemoryError("of the last run")
MemoryError: of the last run'''


def parse(report):
    if "accuracy" not in report:
        raise ValueError(f"cannot read the report of the last run:\n{report}")
    return report


parse(REPORT)
