"""Costs in words: bounds and guesses are told apart, and nothing is divided by zero."""

from __future__ import annotations

from hpcscientist.cli.shared.costs import details, footer, in_short
from hpcscientist.launching.costs.estimate import AllocationEstimate, LaunchEstimate, RoleEstimate
from hpcscientist.launching.costs.spending import Counted, RoleTokens, Spending

ROLE = RoleEstimate(
    role="code",
    calls=20,
    calls_at_most=210,
    prompt=34_000,
    completion=163_840,
    completion_at_most=1_720_320,
)
JOB = AllocationEstimate(
    nodes=4,
    gpus=2,
    served=True,
    node_hours=96.0,
    gpu_hours=192.0,
    jobs_at_most=1000,
    trial_hours=0.5,
    pace_node_hours=2.0,
    pace_gpu_hours=4.0,
)
ESTIMATE = LaunchEstimate(
    trials=(65, 75),
    trials_at_most=305,
    cpu_hours=0.34,
    gpu_hours=0.0,
    cpu_hours_at_most=1234.5,
    gpu_hours_at_most=0.123456,
    roles=(ROLE,),
    allocation=JOB,
)
FOUND = Counted(findings=4, improvements=2)
SPENT = Spending(
    roles=(RoleTokens(role="code", calls=1, prompt=1000, completion=200, estimated=True),),
    cpu_hours=2.0,
    gpu_hours=1.0,
    serving_node_hours=3.0,
    serving_gpu_hours=6.0,
    unended=True,
    busy=0.25,
    found=FOUND,
)


def test_header_line() -> None:
    assert in_short(ESTIMATE) == (
        "experiments at most 1,234 CPU-hours, 0.123 GPU-hours; tokens about 34,000 read, at most "
        "1,720,320 written; serving at most 96 node-hours, 192 GPU-hours a job"
    )


def test_header_line_of_what_asks_nobody() -> None:
    plain = ESTIMATE.model_copy(update={"roles": (), "allocation": None})
    assert in_short(plain) == "experiments at most 1,234 CPU-hours, 0.123 GPU-hours"
    assert details(plain)[-1].startswith("tokens: none")


def test_every_line_of_a_dry_run_says_bound_or_guess() -> None:
    said = details(ESTIMATE)
    assert len(said) == 6
    assert all("bound" in line or "guess" in line for line in said)
    assert "guess 65 to 75, bound 305" in said[0]
    assert said[-1].startswith("serving: guess 2 node-hours, 4 GPU-hours ")


def test_footer() -> None:
    assert footer(SPENT) == [
        "code: 1,000 tokens read, 200 written in 1 call, partly estimated",
        "experiments: 2 CPU-hours, 1 GPU-hours",
        "serving: at least 6 GPU-hours, at least 3 node-hours; a request was in flight 25% of the "
        "time; its end is not recorded, so it counts until the last event before",
        "per finding (4): 300 tokens, 0.5 CPU-hours, 0.25 GPU-hours, 1.5 GPU-hours of serving",
        "per improvement (2): 600 tokens, 1 CPU-hours, 0.5 GPU-hours, 3 GPU-hours of serving",
    ]


def test_footer_of_what_was_confirmed() -> None:
    held = footer(SPENT.model_copy(update={"found": FOUND.model_copy(update={"confirmed": 1})}))
    assert held[-1] == (
        "per confirmed improvement (1): 1,200 tokens, 2 CPU-hours, 1 GPU-hours, 6 GPU-hours of "
        "serving"
    )
    none = SPENT.model_copy(update={"found": FOUND.model_copy(update={"confirmed": 0})})
    assert footer(none)[-1] == "per confirmed improvement: there is none"


def test_footer_breaks_a_role_s_tokens_down() -> None:
    stages = {"code": 300, "debug": 1200, "plan": 5}
    role = SPENT.roles[0].model_copy(update={"stages": stages})
    line = footer(SPENT.model_copy(update={"roles": (role,)}))[0]
    assert line.endswith("partly estimated (debug 1,200, code 300, plan 5)")


def test_footer_without_findings_or_serving() -> None:
    nothing = SPENT.model_copy(
        update={
            "roles": (),
            "serving_node_hours": None,
            "serving_gpu_hours": None,
            "unended": False,
            "busy": None,
            "found": Counted(findings=0, improvements=0),
        }
    )
    assert footer(nothing) == [
        "experiments: 2 CPU-hours, 1 GPU-hours",
        "per finding: there is none",
    ]
