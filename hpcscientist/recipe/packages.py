"""Which packages a trial can import: those that the recipe's reference code imports.

Nothing else is known of a trial's environment: the reference code runs there, and nothing can be
installed. The hard dependencies of these packages are available too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from hpcscientist.files.python_source import UNREADABLE, is_newer, syntax_tree

_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([^\W\d]\w*)", re.MULTILINE)
# Distribution name -> import name, where they differ.
_IMPORTED_AS = {
    "scikit-learn": "sklearn",
    "opencv-python": "cv2",
    "pillow": "pil",
    "pyyaml": "yaml",
    "pytorch": "torch",
}
# Import name -> hard dependencies that every version in use imports.
_BRINGS = {
    "cv2": ("numpy",),
    "datasets": ("huggingface_hub", "numpy", "pandas", "pyarrow", "requests", "tqdm", "yaml"),
    "flax": ("jax", "msgpack", "numpy", "optax"),
    "gymnasium": ("cloudpickle", "numpy"),
    "jax": ("jaxlib", "numpy", "opt_einsum", "scipy"),
    "lightgbm": ("numpy", "scipy"),
    "matplotlib": ("PIL", "cycler", "dateutil", "numpy", "packaging"),
    "numba": ("llvmlite", "numpy"),
    "optax": ("jax", "numpy"),
    "pandas": ("dateutil", "numpy"),
    "scipy": ("numpy",),
    "seaborn": ("matplotlib", "numpy", "pandas"),
    "sentence_transformers": ("torch", "tqdm", "transformers"),
    "skimage": ("PIL", "imageio", "networkx", "numpy", "scipy"),
    "sklearn": ("joblib", "numpy", "scipy", "threadpoolctl"),
    "statsmodels": ("numpy", "pandas", "patsy", "scipy"),
    "tensorflow": ("google", "h5py", "numpy"),
    "torch": ("jinja2", "networkx", "sympy", "typing_extensions"),
    "torch_geometric": ("numpy", "requests", "tqdm"),
    "torchvision": ("PIL", "numpy", "torch"),
    "transformers": ("huggingface_hub", "numpy", "regex", "safetensors", "tokenizers", "tqdm"),
    "xgboost": ("numpy", "scipy"),
}


def imported(reference: Mapping[str, str]) -> tuple[str, ...]:
    """Return the packages that Python files import, sorted.

    Modules of the standard library and the files themselves are excluded. Files that are not valid
    Python count as importing nothing.
    """
    own = {part for name in reference for part in PurePosixPath(name).with_suffix("").parts}
    found = {
        name for file, text in reference.items() if file.endswith(".py") for name in _imports(text)
    }
    return tuple(sorted(found - own - sys.stdlib_module_names))


def available(reference: Mapping[str, str]) -> tuple[str, ...]:
    """Return the packages that are available where a reference runs, sorted.

    These are the packages that it imports, and their hard dependencies.
    """
    found: set[str] = set()
    waiting = list(imported(reference))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(_BRINGS.get(name, ()))
    return tuple(sorted(found))


def importable(package: str, there: Iterable[str]) -> bool:
    """Return whether a package is in `there` or in the standard library.

    It ignores case, and also accepts the distribution names of some packages.
    """
    known = {name.casefold() for name in (*there, *sys.stdlib_module_names)}
    plain = package.casefold()
    return not known.isdisjoint({plain, _IMPORTED_AS.get(plain, plain), plain.replace("-", "_")})


def _imports(text: str) -> Iterable[str]:
    try:
        tree = syntax_tree(text)
    except UNREADABLE:
        if is_newer(text):  # than this Python: an import too many costs less than one too few
            yield from _IMPORT.findall(text)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
