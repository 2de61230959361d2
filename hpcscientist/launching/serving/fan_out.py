"""From where requests go out to served models: the driver, or tasks of Ray across the nodes."""

from __future__ import annotations

from hpcscientist.config.settings import FanOutChoice
from hpcscientist.models.serving.checking import interpreter
from hpcscientist.records.site import Site


def from_where(choice: FanOutChoice, site: Site) -> FanOutChoice:
    """Return what is done about a choice at a site.

    A command of the site's own may take away what Ray needs, so with one requests go out from the
    driver; who asks for Ray gets it. Raises ServingError for what is no command.
    """
    python = site.serving.python or ("" if site.serving.image else site.slurm.python)
    plain = not python or len(interpreter.words(python)) == 1
    return choice if plain or choice != "auto" else "threads"


def remark(choice: FanOutChoice, site: Site, nodes: int) -> str:
    """Return what is to be said of that on so many nodes; "" where it is as it was asked for."""
    if nodes < 2 or from_where(choice, site) == choice:
        return ""
    return (
        "requests go out from the driver and not as Ray's tasks across the nodes, for the engine "
        "is started by a command (serving.python) that may not reach Ray from there; "
        'serving.fan_out = "ray" has them go out as tasks all the same'
    )
