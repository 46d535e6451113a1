"""A delay in one step is found: the step, the rank that kept the others, its cause and its cost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from recovery import quick

from ccltui.demo import Spec, Straggler, write_job
from ccltui.metrics.attribution.slow_steps import slow_steps
from ccltui.metrics.collectives.reports.step_roots import step_culprits
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

CAUSES = ("data_loading", "checkpoint", "garbage_collection", "allocation", "synchronisation")
STEPS = 6
EXTRA_NS = 4_000_000


def view_of(directory: Path, spec: Spec) -> View:
    write_job(directory, spec)
    return View(open_job(directory))


@pytest.mark.parametrize("seed", range(10))
def test_a_pause_of_one_rank_in_one_step(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rank, step, cause = rng.randrange(8), rng.randrange(1, STEPS), CAUSES[seed % len(CAUSES)]
    planted = Straggler(rank, cause, EXTRA_NS, (step,))  # type: ignore[arg-type]
    spec = quick(steps=STEPS, jitter_ns=3_001, seed=seed, stragglers=(planted,))
    view = view_of(tmp_path, spec)

    (found,) = slow_steps(view)
    assert found.step == spec.first_step + step
    assert found.label == str(rank)
    assert found.cause == cause
    assert 0.3 * EXTRA_NS <= found.over_ns <= 1.1 * EXTRA_NS  # pipelines hide a part
    assert found.confidence in ("medium", "high")
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
