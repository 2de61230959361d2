import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parent / "steps" / "02_train.py"))
