from rich.console import Console
from rich.traceback import install

from ratios import ratio

install(console=Console(stderr=True, width=250), width=250, show_locals=True)

print(ratio([1, 2], []))
