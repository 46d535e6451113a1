"""The first finding of the Overview on jobs with a planted fault: rank, cause and cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.verdicts.first_finding import METRICS, TOLERANCE, First, first_finding, main, scored
from ccltui.demo import DEMO, build, write_job
from ccltui.demo.planted import JobSpec
from ccltui.demo.planted.planted_truth import FaultTruth, PlantedTruth
from ccltui.demo.truth import Truth
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job
from ccltui.report import overview_text

SPEC = JobSpec(dp=4)
SLOW = FaultTruth("slow_worker", "slow_worker", (2,), None, None, None, None, None, 1.5, 20.0, 20.0)
RANKS = (0, 1, 2, 3)
TRUTH = PlantedTruth("slow_worker", 5, 100.0, 80.0, 0.5, 1.5, (SLOW,), RANKS, RANKS, ())


def verdict(rank: str = "2", saves_ms: float = 20.5, text: str | None = None) -> Result:
    culprit = {"ranks": [rank], "stage": None, "host": None, "pair": None, "group": None}
    details = {
        "verdict": "slow_worker",
        "confidence": "high",
        "culprit": culprit,
        "loss_ms": 21.0,
        "loss_pct": 21.0,
        "saves_ms": saves_ms,
        "why": text or f"rank {rank} computes 1.5 times as long as its like",
    }
    stated = {"value": 21.0, "unit": "%", "definition": "x", "status": "ok"}
    return Result(metric="verdict", details=details, **stated)  # type: ignore[arg-type]


def first(result: Result) -> First:
    return scored(SPEC, TRUTH, {"verdict": result})


def test_rank_cause_and_cost_are_compared_with_what_was_planted() -> None:
    right = first(verdict())

    assert right.is_right
    assert right.counts
    assert right.error == pytest.approx(0.025)
    assert not first(verdict(saves_ms=23.0)).is_right
    assert not first(verdict(rank="1")).who


def test_a_rank_that_does_not_stand_in_the_text_is_not_named() -> None:
    assert not first(verdict(text="one rank computes 2.5 times as long")).who


@pytest.mark.parametrize("seed", [5, 7, 12, 14])
def test_a_planted_fault_stands_first(seed: int) -> None:
    found = first_finding(seed)

    assert found.counts
    assert found.is_right, found


def test_the_command_prints_the_rates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--first", "5", "--jobs", "1"]) == 0

    assert "1 jobs, 1 with a fault" in capsys.readouterr().out


def mean_step_ms(truth: Truth) -> float:
    steps = [max(rank.step_ns[k] for rank in truth.ranks) for k in truth.ranks[0].step_ns]
    return sum(steps) / len(steps) / 1e6


@pytest.mark.parametrize("seed", [7, 101])
def test_the_first_finding_of_the_demo_costs_what_was_planted(tmp_path: Path, seed: int) -> None:
    spec = replace(DEMO, seed=seed)
    truth = write_job(tmp_path / "job", spec)
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache"))
    results = {name: find(name).run(view) for name in METRICS}
    slow, _ = spec.stragglers
    others = build(replace(spec, stragglers=spec.stragglers[1:])).truth

    finding = overview_text.findings(results)[0]

    assert finding.text.startswith(f"Rank {slow.rank} computes ")
    assert finding.key == "saves_ms"
    planted = mean_step_ms(truth) - mean_step_ms(others)
    assert finding.value == pytest.approx(planted, rel=TOLERANCE)
