import traceback

from folds import evaluate


def guarded(call, *arguments):
    try:
        return call(*arguments), None
    except Exception:
        return None, traceback.format_exc()


score, problem = guarded(evaluate, 3)
if problem:
    raise RuntimeError(f"a fold failed:\n{problem}")
