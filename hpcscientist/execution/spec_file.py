"""spec.json: what a trial is to run, signed by the driver that wrote it.

A candidate without a sandbox can write into the folders of other trials. So a worker runs only
specs signed with the key of the campaign whose run directory they are in. Only if this user has no
key of that campaign, an unsigned spec is accepted.
"""

from __future__ import annotations

import hmac
import json
from typing import Any

from hpcscientist.files import vault
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.files.trusted import TrustedCopy
from hpcscientist.records.trial import TrialSpec

_SEAL = "seal"


class Unsealed(ValueError):
    """The file is not what the campaign's driver wrote."""


def write(paths: TrialPaths, spec: TrialSpec, *, durable: bool = True) -> None:
    """Write a trial's spec.json. Raises OSError."""
    content = json.loads(spec.model_dump_json())
    content[_SEAL] = _seal(spec.provenance.campaign_id, content)
    write_atomic(paths.spec, json.dumps(content, indent=1).encode(), durable=durable)


def read(paths: TrialPaths) -> TrialSpec:
    """Return what a trial is to run. Raises Unsealed, ValueError (not a spec) and OSError."""
    text = read_regular(paths.spec)
    spec, content = TrialSpec.model_validate_json(text), json.loads(text)
    campaign_id = spec.provenance.campaign_id
    copy = TrustedCopy.found(paths.root.parent.parent)
    if copy is not None and copy.campaign_id != campaign_id:
        raise Unsealed(f"{paths.spec}: is of another campaign")
    if not hmac.compare_digest(spec.seal, _seal(campaign_id, content)):
        raise Unsealed(f"{paths.spec}: is not what the campaign's driver wrote")
    return spec


def _seal(campaign_id: str, content: dict[str, Any]) -> str:
    """Return the signature of the file's fields without the signature itself.

    It covers the fields as they are in the file, not as `TrialSpec` knows them: another version of
    the package may have written the file.
    """
    told = {name: value for name, value in content.items() if name != _SEAL}
    return vault.seal(campaign_id, json.dumps(told, sort_keys=True).encode())
