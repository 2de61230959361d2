from __future__ import annotations

import pytest

from hpcscientist.doctor import slurm
from hpcscientist.doctor.check import CheckState
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.limits import SlurmLimits
from hpcscientist.records.site import SlurmSite

CONFIG = """\
Configuration data as of 2026-01-01T00:00:00
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = dev
Empty                   =
SelectTypeParameters    = CR_CORE_MEMORY

Slurmctld(primary) at head is UP
"""


def test_configuration_is_read() -> None:
    pairs = slurm.config_pairs(CONFIG)
    assert pairs["ClusterName"] == "dev"
    assert pairs["AccountingStorageType"] == "accounting_storage/slurmdbd"
    assert pairs["Empty"] == ""


@pytest.mark.parametrize(
    ("said", "state"),
    [("auto", CheckState.WARNING), ("no", CheckState.WARNING), ("yes", CheckState.MISSING)],
)
def test_no_accounting_is_missing_only_where_it_was_promised(said: str, state: CheckState) -> None:
    site = SlurmSite.model_validate({"accounting": said})
    config = {"AccountingStorageType": "accounting_storage/none"}
    assert slurm.accounting(Slurm(), site, config).state is state


@pytest.mark.parametrize(
    ("parameters", "state"),
    [("CR_CORE_MEMORY", CheckState.OK), ("CR_Core", CheckState.WARNING), ("", CheckState.WARNING)],
)
def test_memory_is_handed_out_or_not(parameters: str, state: CheckState) -> None:
    check = slurm.memory(SlurmSite(), {"SelectTypeParameters": parameters})
    assert check.state is state


MINE = "physics|normal,long\nchemistry|normal\n"


@pytest.mark.parametrize(
    ("site", "text", "enforced", "expected"),
    [
        ({}, MINE, "associations", {"slurm account": CheckState.OK, "slurm qos": CheckState.OK}),
        (
            {"account": "physics", "qos": "long"},
            MINE,
            "associations",
            {"slurm account": CheckState.OK, "slurm qos": CheckState.OK},
        ),
        (
            {"account": "chemistry", "qos": "long"},
            MINE,
            "associations",
            {"slurm account": CheckState.OK, "slurm qos": CheckState.MISSING},
        ),
        ({"account": "biology"}, MINE, "", {"slurm account": CheckState.MISSING}),
        ({}, "", "associations,limits", {"slurm account": CheckState.MISSING}),
        ({}, "", "", {"slurm account": CheckState.OK}),
        ({"account": "any"}, "", "", {"slurm account": CheckState.OK}),
    ],
)
def test_account_and_qos_are_the_user_s(
    site: dict[str, str], text: str, enforced: str, expected: dict[str, CheckState]
) -> None:
    found = slurm.associations(text, SlurmSite.model_validate(site), enforced)
    assert {check.name: check.state for check in found} == expected


def test_limits_say_what_has_no_limit() -> None:
    limits = SlurmLimits(
        version="22.05.8",
        max_array=1000,
        max_submit=10**9,
        max_minutes=1440,
        nodes=4,
        accounting=True,
    )
    said = slurm.limits(limits).found
    assert "1000 tasks" in said
    assert "any number" in said
