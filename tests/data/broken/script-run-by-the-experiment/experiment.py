import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def stage(name):
    subprocess.run([sys.executable, "-B", str(HERE / "stages" / name)], check=True)


stage("prepare.py")
