"""What calls of libraries give back, as far as it is made of what they are given."""

from __future__ import annotations

import ast
from collections.abc import Callable

from hpcscientist.authoring.structure.code.objects import last_name
from hpcscientist.authoring.structure.code.refs import Refs, elements, sequence

# By the last part of their name. What gives back its first argument, or something that stands
# for it; what holds its arguments; which methods of a library's base give back the object.
_SAME = {"list", "tuple", "set", "sorted", "reversed", "iter", "next", "copy", "deepcopy", "cast"}
_SAME |= {"tqdm", "partial", "compile", "script", "jit", "vmap", "DataLoader", "Subset"}
_SAME |= {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"}
_HOLDS = {"Sequential", "ModuleList"}
_FLUENT = {"to", "cuda", "cpu", "eval", "train", "float", "half", "double", "bfloat16"}
_FLUENT |= {"requires_grad_", "share_memory"}

_Infer = Callable[[ast.expr], Refs]


def library(node: ast.Call, infer: _Infer, items: Callable[[Refs], Refs]) -> Refs:
    """Return what a call of something that is not ours may give back; () if unknown.

    `items` says what the items of something may be.
    """
    name = last_name(node.func)
    given = [arg for arg in node.args if not isinstance(arg, ast.Starred)]
    if name == "enumerate" and given:
        return sequence([sequence([(), items(infer(given[0]))])])
    if name == "zip":
        return sequence([sequence([items(infer(value)) for value in given])])
    if name in _HOLDS:
        return _held(node, infer)
    if name in _SAME and (values := [*given, *(keyword.value for keyword in node.keywords)]):
        return infer(values[0])
    if isinstance(node.func, ast.Attribute):
        return _method(name, infer(node.func.value))
    return ()


def _held(node: ast.Call, infer: _Infer) -> Refs:
    if len(node.args) == 1:
        only = node.args[0]
        refs = infer(only.value if isinstance(only, ast.Starred) else only)
        return refs if any(ref.kind == "sequence" for ref in refs) else sequence([refs])
    return sequence([infer(value) for value in node.args])


def _method(name: str, of: Refs) -> Refs:
    if name in _FLUENT or name == "values":
        return of
    return sequence([sequence([(), elements(of)])]) if name == "items" else ()
