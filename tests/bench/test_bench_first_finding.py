"""The first finding on jobs with a planted fault: class, rank, share and saving."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.verdicts.first_finding import TOLERANCE, first_finding, main, scored
from ccltui.demo import DEMO, build, write_job
from ccltui.demo.planted import JobSpec
from ccltui.demo.planted.planted_job import FaultTruth, PlantedTruth
from ccltui.demo.truth import Truth
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

SPEC = JobSpec(dp=4)
SLOW = FaultTruth("slow_worker", "slow_worker", (2,), None, None, None, None, None, 1.5, 20.0, 20.0)
RANKS = (0, 1, 2, 3)
COMPUTES = "Rank 2 computes 1.5 times as long as its peers"
TRUTH = PlantedTruth("slow_worker", 5, 100.0, 80.0, 0.5, 1.5, (SLOW,), RANKS, RANKS, ())


def findings(**changes: object) -> Result:
    """Return the result of `findings` on the job, with changes to its only finding."""
    where = {"ranks": ["2"], "host": None, "stage": None}
    found = {
        "class": "slow_worker",
        "text": "Rank 2 computes 1.5 times as long as its peers: 20 % of the time is lost.",
        "where": where,
        "share": 0.2,
        "saves_ms": 20.5,
        "saves_bounds_ms": None,
        "sure": {"what": "high", "who": "high", "how_much": "high"},
        **changes,
    }
    details = {"findings": [found], "period": "step", "period_ms": 100.0}
    stated = {"value": 1, "unit": "1", "definition": "x", "status": "ok"}
    return Result(metric="findings", details=details, **stated)  # type: ignore[arg-type]


def test_a_fault_that_costs_less_than_hosts_do_without_it_does_not_count() -> None:
    assert not scored(SPEC, replace(TRUTH, host_ms=21.0), findings()).counts


def at(*ranks: str) -> dict[str, object]:
    return {"ranks": list(ranks), "host": None, "stage": None}


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ({}, True),
        ({"share": 0.225}, True),
        ({"share": 0.24}, False),
        ({"saves_ms": 23.0}, True),  # within a tenth and a percent of the step
        ({"saves_ms": 24.0}, False),
        ({"saves_ms": None}, True),
        ({"saves_ms": None, "saves_bounds_ms": [5.0, 21.0]}, True),
        ({"saves_ms": None, "saves_bounds_ms": [25.0, 30.0]}, False),
        ({"share": 0.4, "text": f"{COMPUTES}: up to 40 % of the time is lost."}, True),
        ({"share": 0.1, "text": f"{COMPUTES}: up to 10 % of the time is lost."}, False),
        ({"class": "slow_node"}, False),
        ({"class": "waiting_for_rank"}, True),
        ({"class": "waiting_for_rank", "share": 0.15}, True),  # three of four ranks wait
        ({"class": "waiting_for_rank", "share": 0.11}, False),
        ({"class": "waiting_for_rank", "where": at("1")}, False),
        ({"where": at("1"), "text": "Rank 1 computes 1.5 times as long as its peers."}, False),
        ({"text": "One rank computes 2.5 times as long."}, False),
        ({"class": "compute_bound", "where": at()}, False),
    ],
)
def test_class_rank_share_and_saving_are_compared_with_what_was_planted(
    changes: dict[str, object], right: bool
) -> None:
    found = scored(SPEC, TRUTH, findings(**changes))

    assert found.counts
    assert found.is_right is right, found


@pytest.mark.parametrize(
    "seed",
    [
        6,
        12,
        326,  # a late host, before the bubble of the schedule
        329,  # a host that pauses in two steps, before computing
        345,  # hosts of all ranks: what waits behind them in transfers is lost too
        381,  # a late host of which the verdict is not sure, before what every step has
        354,  # what varies by chance, which is more than ranks wait
        398,  # uneven work, which is less than ranks wait
    ],
)
def test_a_planted_fault_stands_first(seed: int) -> None:
    found = first_finding(seed)

    assert found.counts
    assert found.is_right, found


def test_the_command_prints_the_rates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--first", "12", "--jobs", "1"]) == 0

    assert "1 jobs, 1 with a fault" in capsys.readouterr().out


def mean_step_ms(truth: Truth) -> float:
    steps = [max(rank.step_ns[k] for rank in truth.ranks) for k in truth.ranks[0].step_ns]
    return sum(steps) / len(steps) / 1e6


@pytest.mark.parametrize("seed", [7, 101])
def test_the_first_finding_of_the_demo_costs_what_was_planted(tmp_path: Path, seed: int) -> None:
    spec = replace(DEMO, seed=seed)
    truth = write_job(tmp_path / "job", spec)
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache"))
    slow, _ = spec.stragglers
    others = build(replace(spec, stragglers=spec.stragglers[1:])).truth

    found = find("findings").run(view).details["findings"][0]

    assert found["class"] == "slow_worker"
    assert found["where"]["ranks"] == [str(slow.rank)]
    planted = mean_step_ms(truth) - mean_step_ms(others)
    assert found["saves_ms"] == pytest.approx(planted, rel=TOLERANCE)
