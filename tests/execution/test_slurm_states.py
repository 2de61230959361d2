"""What Slurm's words mean."""

from __future__ import annotations

import pytest

from hpcscientist.config.partitions import minutes
from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm.commands import failure
from hpcscientist.execution.backends.slurm.watching.states import (
    STATES,
    Phase,
    can_never_run,
    cause,
    meaning,
    patience_s,
    phase,
)
from hpcscientist.records.trial import EndState


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ("PENDING", Phase.WAITING),
        ("CONFIGURING", Phase.WAITING),
        ("REQUEUED", Phase.WAITING),
        ("REQUEUE_HOLD", Phase.WAITING),
        ("SPECIAL_EXIT", Phase.WAITING),
        ("RUNNING", Phase.RUNNING),
        ("COMPLETING", Phase.RUNNING),
        ("SUSPENDED", Phase.RUNNING),
        ("STOPPED", Phase.RUNNING),
        ("COMPLETED", Phase.ENDED),
        ("CANCELLED by 1000", Phase.ENDED),
        ("CANCELLED+", Phase.ENDED),
        ("A_STATE_OF_TOMORROW", Phase.RUNNING),
    ],
)
def test_every_state_has_its_phase(state: str, where: Phase) -> None:
    assert phase(state) is where


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("COMPLETED", EndState.ENDED),
        ("FAILED", EndState.FAILED),
        ("TIMEOUT", EndState.TIMEOUT),
        ("DEADLINE", EndState.TIMEOUT),
        ("OUT_OF_MEMORY", EndState.OUT_OF_MEMORY),
        ("NODE_FAIL", EndState.NODE_FAIL),
        ("BOOT_FAIL", EndState.NODE_FAIL),
        ("PREEMPTED", EndState.PREEMPTED),
        ("CANCELLED by 0", EndState.CANCELLED),
        ("RUNNING", EndState.LOST),
    ],
)
def test_every_end_has_its_cause(state: str, why: EndState) -> None:
    assert cause(state) is why


def test_a_state_is_over_exactly_if_it_has_a_cause() -> None:
    for state in STATES:
        assert (phase(state) is Phase.ENDED) == (cause(state) is not EndState.LOST)


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        ("Priority", False),
        ("Resources", False),
        ("None", False),
        ("JobArrayTaskLimit", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("QOSMaxCpuPerUserLimit", False),
        ("AssocGrpCpuLimit", False),
        ("ReqNodeNotAvail, UnavailableNodes:n1", False),
        ("JobHeldUser", False),
        ("JobHeldAdmin", False),
        ("BeginTime", False),
        ("PartitionDown", False),
        ("PartitionInactive", False),
        ("BadConstraints", True),
        ("InvalidQOS", True),
        ("InvalidAccount", True),
        ("PartitionTimeLimit", True),
        ("PartitionNodeLimit", False),
        ("AssocGrpCPURunMinutesLimit", False),
        ("QOSUsageThreshold", False),
        ("AssocMaxCpuPerJobLimit", True),
        ("QOSMaxWallDurationPerJobLimit", True),
        ("DependencyNeverSatisfied", True),
    ],
)
def test_a_reason_is_hopeless_only_if_waiting_cannot_fix_it(reason: str, never: bool) -> None:
    assert can_never_run(reason) is never


# job_state_reason.c of Slurm 25.11: what may be counted, and the reasons that count it.
COUNTED = ("BB", "Billing", "Cpu", "Energy", "GRES", "License", "Mem", "Memory", "Node", "Unknown")


@pytest.mark.parametrize("what", COUNTED)
def test_a_job_that_is_too_large_for_its_account_or_qos_never_runs(what: str) -> None:
    for limits in ("AssocMax", "QOSMax"):
        for limit in ("PerJob", "PerNode", "MinutesPerJob", "PerJobLimit", "MinutesPerJobLimit"):
            assert can_never_run(f"{limits}{what}{limit}")
    assert can_never_run(f"QOSMin{what}")
    for reason in (f"AssocGrp{what}Limit", f"QOSGrp{what}Minutes", f"Max{what}PerAccount"):
        assert patience_s(reason, is_busy=False) is None


@pytest.mark.parametrize(
    "reason",
    [
        *("MaxMemPerLimit", "ReservationDeleted", "ReservationInvalid", "AccountNotAllowed"),
        *("QOSNotAllowed", "DeadLine", "QOSMaxWallDurationPerJobLimit", "QOSMinCpuNotSatisfied"),
        *("QOSMaxGRESPerNode", "QOSMaxMemoryPerNode", "AssocMaxWallDurationPerJobLimit"),
    ],
)
def test_these_never_end_either(reason: str) -> None:
    assert can_never_run(reason)


@pytest.mark.parametrize(
    "reason",
    [
        *("PartitionConfig", "PartitionNodeLimit", "Constraints", "Reservation", "Licenses"),
        *("NodeDown", "Prolog", "SchedDefer", "FedJobLock", "BurstBufferStageIn", "QOSJobLimit"),
        *("AssociationTimeLimit", "QOSTimeLimit", "MaxPoweredUpNodes", "InactiveLimit"),
        *("AssocGrpSubmitJobsLimit", "AccountingPolicy", "TimeLimit", "QOSUsageThreshold"),
        *("MaxCpuPerAccount", "MaxJobsPerAccount", "QOSGrpWallLimit", "NvidiaImexChannels"),
    ],
)
def test_these_may_end(reason: str) -> None:
    assert patience_s(reason, "a,b", is_busy=False) is None


@pytest.mark.parametrize(
    ("reason", "partitions", "is_busy", "certain", "in_the_end"),
    [
        ("QOSMaxCpuPerUserLimit", "p", True, False, False),  # ends as the user's own jobs do
        ("QOSMaxCpuPerUserLimit", "p", False, False, True),
        ("QOSMaxGRESPerUser", "p", False, False, True),
        ("MaxMemoryRunMinsPerUser", "p", False, False, True),
        ("PartitionTimeLimit", "p", True, True, True),
        ("PartitionTimeLimit", "short,long", True, False, True),  # of one of them, perhaps
        ("QOSMaxMemoryPerJob", "short,long", True, False, True),
        ("InvalidAccount", "short,long", True, True, True),
        ("ReservationDeleted", "short,long", True, True, True),
    ],
)
def test_how_sure_it_is(
    reason: str, partitions: str, is_busy: bool, certain: bool, in_the_end: bool
) -> None:
    limit = patience_s(reason, partitions, is_busy)
    assert (limit == 0) == certain
    assert (limit is not None) == in_the_end


@pytest.mark.parametrize(
    ("reason", "explained"),
    [
        ("AssocGrpCPUMinutesLimit", True),
        ("QOSGrpGRESMinutes", True),
        ("AssocGrpCPURunMinutesLimit", False),
        ("Priority", False),
    ],
)
def test_hours_that_are_used_up_are_called_so(reason: str, explained: bool) -> None:
    assert meaning(reason).startswith(reason)
    assert (meaning(reason) != reason) == explained


@pytest.mark.parametrize(
    "said",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection "
        "to host:ctl:6819: Connection refused",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller",
        "squeue: error: _parse_next_key: Parsing error at unrecognized key: X\n"
        "squeue: fatal: Unable to process configuration file",
    ],
)
def test_silence_is_told_from_a_no(said: str) -> None:
    assert isinstance(failure(said), SchedulerSilent)


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: invalid partition specified: nowhere\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified",
        "sbatch: error: Batch job submission failed: Invalid account or account/partition "
        "combination specified",
        "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: "
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "Slurm accounting storage is disabled",
    ],
)
def test_a_no_keeps_slurms_words(said: str) -> None:
    error = failure(said)
    assert isinstance(error, SchedulerRefused)
    assert str(error).split("; ")[-1] in said.replace("sbatch: error: ", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("01:00:00", 60),
        ("1-00:00:00", 1440),
        ("30:00", 30),
        ("UNLIMITED", 525600),
        ("7-12:30:00", 10830),
    ],
)
def test_time_limits(text: str, expected: int) -> None:
    assert minutes(text) == expected


def test_commands_without_a_configuration_say_what_to_do() -> None:
    error = failure(
        "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        "sbatch: error: fetch_config: DNS SRV lookup failed\n"
        "sbatch: error: _establish_config_source: failed to fetch config\n"
        "sbatch: fatal: Could not establish a configuration source\n"
    )
    assert isinstance(error, SchedulerSilent)  # where a controller gives it, for a while perhaps
    assert "--backend local" in str(error)
    assert "\n" not in str(error)
