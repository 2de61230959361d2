"""All strategies for pursuing an idea: the built-in ones, and those of installed packages."""

from __future__ import annotations

from difflib import get_close_matches

from hpcscientist.conduct.strategy.strategy import LinearSearch, StrategyKind, TreeSearch
from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.system import plugins

OURS: tuple[StrategyKind, ...] = (LinearSearch(), TreeSearch())


def strategy_of(settings: Settings) -> StrategyKind:
    """Return the strategy that `authoring.search` names.

    Raises UsageError for an unknown name, or for a plugin that is no `StrategyKind`.
    """
    found = {kind.name: kind for kind in OURS}
    for name, plugin in plugins.load("strategies", frozenset(found)).items():
        if not isinstance(plugin.value, StrategyKind) or plugin.value.name != name:
            raise UsageError(
                f"{plugin.origin}: {name!r} is no StrategyKind of that name; fix or uninstall it"
            )
        found[name] = plugin.value
    wanted = settings.authoring.search
    if wanted not in found:
        near = get_close_matches(wanted, found, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(found)}"
        raise UsageError(f"authoring.search: there is no strategy {wanted!r}; {hint}")
    return found[wanted]
