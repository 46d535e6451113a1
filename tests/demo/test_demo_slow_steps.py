"""A delay in one step is found: the step, the rank that kept the others, its cause and its cost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from recovery import quick

from ccltui.demo import Spec, Straggler, write_job
from ccltui.demo.planted import random_spec, write_planted
from ccltui.metrics.confidence import sure_text
from ccltui.metrics.findings.causes.activity import HOST_WORDS
from ccltui.metrics.findings.slow_steps import slow_steps, step_culprits
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job
from ccltui.report.explanation import METRICS, explain
from ccltui.report.json_document import TraceSummary

CAUSES = ("data_loading", "checkpoint", "garbage_collection", "allocation", "synchronisation")
STEPS = 6
EXTRA_NS = 4_000_000


def view_of(directory: Path, spec: Spec) -> View:
    write_job(directory, spec)
    return View(open_job(directory))


@pytest.mark.parametrize("seed", range(len(CAUSES)))
def test_a_pause_of_one_rank_in_one_step(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rank, step, cause = rng.randrange(8), rng.randrange(1, STEPS), CAUSES[seed]
    planted = Straggler(rank, cause, EXTRA_NS, (step,))  # type: ignore[arg-type]
    spec = quick(steps=STEPS, jitter_ns=3_001, seed=seed, stragglers=(planted,))
    view = view_of(tmp_path, spec)

    (found,) = slow_steps(view)
    assert found.step == spec.first_step + step
    assert found.label == str(rank)
    assert found.cause == cause
    assert 0.3 * EXTRA_NS <= found.over_ns <= 1.1 * EXTRA_NS  # pipelines hide a part
    assert found.sure.who in ("medium", "high")
    assert f"rank {rank} keeps the others waiting" in found.sentence
    assert step_culprits(view).of(found.step).label == str(rank)


def test_a_step_is_slow_beside_a_rank_that_always_is(tmp_path: Path) -> None:
    stragglers = (Straggler(1, "compute", 900_000), Straggler(6, "data_loading", EXTRA_NS, (3,)))
    spec = quick(steps=STEPS, stragglers=stragglers)
    view = view_of(tmp_path, spec)

    (found,) = slow_steps(view)
    assert (found.step, found.label) == (spec.first_step + 3, "6")
    culprits = step_culprits(view)
    others = [culprits.of(spec.first_step + step).label for step in range(STEPS) if step != 3]
    assert others == ["1"] * (STEPS - 1)


@pytest.mark.parametrize("rank", range(4))
def test_in_a_pipeline_sends_tell_nobody_and_the_own_time_of_the_rank_does(
    tmp_path: Path, rank: int
) -> None:
    planted = Straggler(rank, "data_loading", EXTRA_NS, (3,))
    shape = {"tp": 1, "pp": 4, "dp_shard": 1, "layers": 4, "micro_batches": 6}
    spec = quick(steps=STEPS, **shape, jitter_ns=1_009, stragglers=(planted,))
    view = view_of(tmp_path, spec)

    (found,) = slow_steps(view)
    assert (found.step, found.label) == (spec.first_step + 3, str(rank))
    assert found.cause == "data_loading"
    assert step_culprits(view).of(found.step).label == str(rank)


@pytest.mark.parametrize("cause", ["checkpoint", "data_loading"])
def test_a_pause_of_all_ranks_is_nobodys_and_has_its_cause(tmp_path: Path, cause: Any) -> None:
    stragglers = tuple(Straggler(rank, cause, EXTRA_NS, (4,)) for rank in range(8))
    spec = quick(steps=STEPS, jitter_ns=3_001, stragglers=stragglers)
    view = view_of(tmp_path, spec)

    (found,) = slow_steps(view)
    assert (found.step, found.label, found.wait_ns) == (spec.first_step + 4, None, 0)
    assert found.over_ns == pytest.approx(EXTRA_NS, rel=0.1)
    assert "idle" in found.why
    assert "no single rank is the cause" in found.why
    assert HOST_WORDS[cause] in found.why


def test_the_finding_is_shown_and_leads_to_its_proof(tmp_path: Path) -> None:
    spec = quick(steps=STEPS, stragglers=(Straggler(6, "data_loading", EXTRA_NS, (3,)),))
    view = view_of(tmp_path, spec)
    results = {name: find(name).run(view) for name in METRICS}

    (row,) = results["step_variability"].details["slow_steps"]
    assert (row["step"], row["rank"]) == (spec.first_step + 3, "6")
    arrived = view.arrivals.groups[row["evidence"]["group_number"]]
    at = row["evidence"]["index"]
    assert arrived.labels[int(arrived.last[at])] == "6"
    assert int(arrived.match.step[at]) == row["step"]
    claims = explain(TraceSummary("x", 8, 8), results).claims
    (claim,) = (one for one in claims if one.metric == "step_variability")
    assert claim.value == row["over_ms"]
    assert f"step {row['step']} takes" in claim.text
    assert claim.text.endswith(f"(Confidence: {sure_text(row['sure'])}.)")


def test_one_rank_alone_has_slow_steps_without_a_culprit(tmp_path: Path) -> None:
    spec = quick(steps=STEPS, stragglers=(Straggler(0, "data_loading", EXTRA_NS, (3,)),))
    write_job(tmp_path, spec)
    for path in tmp_path.glob("kineto_trace_[1-7]*"):
        path.unlink()
    view = View(open_job(tmp_path))

    (found,) = slow_steps(view)
    assert (found.step, found.label) == (spec.first_step + 3, None)
    assert HOST_WORDS["data_loading"] in found.why
    culprit = step_culprits(view).of(found.step)
    assert culprit.label is None
    assert "needs at least two" in culprit.why


@pytest.mark.parametrize(
    "spec",
    [
        quick(steps=STEPS, jitter_ns=7_001),
        quick(steps=STEPS, stragglers=(Straggler(3, "compute", 900_000),)),
        quick(steps=2),
    ],
    ids=["quiet", "always late", "two steps"],
)
def test_no_step_is_slow_where_all_are_alike(tmp_path: Path, spec: Spec) -> None:
    assert slow_steps(view_of(tmp_path, spec)) == []


def test_the_rank_that_makes_steps_slow_in_a_sharded_job_comes_first(tmp_path: Path) -> None:
    """Transfers hide who is late there; that this rank waits less than all others tells."""
    spec = random_spec(740193, varied=True)
    truth = write_planted(tmp_path / "job", spec).truth
    (fault,) = truth.faults
    details = find("findings").run(View(open_job(tmp_path / "job"))).details

    first = details["findings"][0]
    (slow,) = (one for one in details["findings"] if one["class"] == "slow_steps")
    assert first["class"] == "waiting_for_rank"
    assert first["where"]["ranks"] == [str(rank) for rank in fault.ranks]
    assert first["cost_ms"] == pytest.approx(fault.cost_ms, rel=0.05)
    assert first["more"].startswith("It waits less than all other ranks.")
    assert first["sure"]["who"] == "low"
    assert slow["where"] == {**slow["where"], "ranks": [], "steps": [10]}


def test_single_steps_name_nobody_with_high_confidence(tmp_path: Path) -> None:
    """One rank has more work in one step by chance; the planted fault is nobody's."""
    write_planted(tmp_path / "job", random_spec(742067, varied=True))
    details = find("findings").run(View(open_job(tmp_path / "job"))).details

    (slow,) = (one for one in details["findings"] if one["class"] == "slow_steps")
    assert slow["where"]["ranks"] == ["2"]
    assert slow["sure"]["who"] == "medium"
