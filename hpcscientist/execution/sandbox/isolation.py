"""Choose how candidates are isolated, and state honestly what that protects."""

from __future__ import annotations

import shutil
from pathlib import Path

from hpcscientist.errors import UsageError
from hpcscientist.records.site import Host
from hpcscientist.records.trial import Isolation

_NO_SITE = Host()

_CONTAINED = (
    "Candidates run in Apptainer containers{network}: each sees its code and the public data "
    "read-only, and writes to its own folder.{more}"
)
_OPEN = (
    " The site leaves THE NETWORK OPEN: candidates can reach whatever their node reaches, fetch "
    "data, labels of published data sets included, and send away what they see."
)
_UNCONTAINED = (
    "NO SANDBOX: candidates run as this user with a scrubbed environment and folders of "
    "their own, under limits kept from outside. Nothing in the run directory tells them "
    "where the labels are, but they can look for them, or load them from a library that "
    "bundles the data; they can use the network, and read and write whatever files this user can, "
    "other trials' included. Where a machine lets them have process ids of their own they can "
    "neither see nor stop any process but theirs, and none of theirs outlives the trial; elsewhere "
    "they can read the memory and environment of this user's processes, the driver's included, and "
    "leave processes behind if they kill their worker. Scores are only as trustworthy as the code "
    "that earned them."
)


def choose(image: str | None, elsewhere: bool = False) -> Isolation:
    """Return the strongest isolation available for a recipe's image.

    `elsewhere`: the trials run on other machines, so only those need Apptainer. A trial on a
    machine without it then ends as a machine failure.
    """
    if image is not None and Path(image).exists() and (elsewhere or shutil.which("apptainer")):
        return Isolation.APPTAINER
    return Isolation.NONE


def statement(isolation: Isolation, host: Host = _NO_SITE) -> str:
    """Return a statement of what is protected and what is not, for the header and the results."""
    if isolation is Isolation.NONE:
        return _UNCONTAINED
    places = ", ".join(host.binds)
    more = f" The site shows them {places} too, read-only." if places else ""
    if host.network == "open":
        return _CONTAINED.format(network="", more=more + _OPEN)
    return _CONTAINED.format(network=" without network", more=more)


def require_permission(isolation: Isolation, trusted_code: bool, allowed: bool) -> None:
    """Raise UsageError if generated code would run without a sandbox and the user did not allow it.

    `trusted_code`: all code of the campaign ships with a recipe or is made by the control arm.
    """
    if isolation is Isolation.NONE and not trusted_code and not allowed:
        raise UsageError(
            "generated code would run without a sandbox (no Apptainer, or no image is named by the "
            "recipe or --image): install both, or accept the risk with --allow-unsandboxed"
        )
