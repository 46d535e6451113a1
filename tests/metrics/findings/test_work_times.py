"""Who has more work by times that need neither a replay nor a match: stages, and micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_own_times import job, view_of

from ccltui.demo.planted import Fault, JobSpec
from ccltui.metrics.findings.accused import by_chance, heavier_stage, uneven_work
from ccltui.metrics.registry import find

PIPELINE = {"family": "pp", "dp": 2, "pp": 2}
HEAVY = Fault("heavy_stage", (2, 3), 1.8, stage=1)
UNEVEN = Fault("uneven_microbatches", (), 0.4)


@pytest.mark.parametrize(
    "spec",
    [
        job(HEAVY, **PIPELINE, level="kernels"),
        job(HEAVY, **PIPELINE, level="no_host", batched=True, prefetch=False, one_kernel=True),
    ],
)
def test_a_stage_that_computes_longer_is_named(tmp_path: Path, spec: JobSpec) -> None:
    found = heavier_stage(view_of(tmp_path, spec))

    assert found is not None
    assert (found.kind, found.ranks, found.sure) == ("heavy_stage", ("2", "3"), "low")
    assert found.factor == pytest.approx(1.6, rel=0.1)


@pytest.mark.parametrize(
    "spec",
    [
        job(**PIPELINE, jitter=0.08),
        job(UNEVEN, **PIPELINE),
        job(Fault("slow_worker", (2,), 1.8), **PIPELINE),
        # One rank of each stage: no stage has more work.
        job(Fault("slow_worker", (1, 3), 1.8), **PIPELINE),
        # Without stages half of the ranks is slow, and not more work.
        job(Fault("slow_worker", (2, 3), 1.8), dp=4),
    ],
)
def test_ranks_that_are_no_stage_have_no_more_work(tmp_path: Path, spec: JobSpec) -> None:
    assert heavier_stage(view_of(tmp_path, spec)) is None


@pytest.mark.parametrize(
    "spec",
    [
        job(UNEVEN, **PIPELINE, steps=6),
        job(UNEVEN, family="tp", dp=2, tp=2, steps=6),
        job(UNEVEN, family="tp", dp=2, tp=2, steps=6, level="kernels"),
        # Parts of a window hold other passes of one stage than of the next.
        job(UNEVEN, **PIPELINE, micro_batches=4, steps=6, level="kernels"),
        # A ring sends and receives as stages do.
        job(UNEVEN, family="tp", dp=2, tp=2, micro_batches=4, steps=6, level="kernels", ring=True),
    ],
)
def test_ranks_that_take_longer_together_have_unequal_micro_batches(
    tmp_path: Path, spec: JobSpec
) -> None:
    found = uneven_work(view_of(tmp_path, spec))

    assert found is not None
    assert (found.kind, found.ranks) == ("uneven_microbatches", ())
    assert found.share > 0.02


@pytest.mark.parametrize(
    "spec",
    [
        job(**PIPELINE, jitter=0.08, steps=6),
        job(**PIPELINE, jitter=0.08, steps=6, level="kernels"),
        job(family="tp", dp=2, tp=2, jitter=0.08, steps=6),
        job(HEAVY, **PIPELINE, steps=6, level="kernels"),
        job(family="pp", dp=2, tp=2, pp=4, micro_batches=8, jitter=0.06, steps=4, level="kernels"),
        # Of four stages two are as one of two stages.
        job(family="pp", dp=2, pp=4, micro_batches=8, jitter=0.025, steps=5, level="no_host"),
        # A host that is slow in some steps: all its ranks are, and no others.
        job(Fault("slow_node", (0, 1), 1.4, steps=(1, 3)), dp=4, gpus_per_node=2, steps=6),
        job(Fault("alternating", (1, 3), 1.6), **PIPELINE, steps=6),
        job(Fault("random", (), 4.0), **PIPELINE, steps=6),
    ],
)
def test_ranks_that_vary_on_their_own_have_equal_micro_batches(
    tmp_path: Path, spec: JobSpec
) -> None:
    assert uneven_work(view_of(tmp_path, spec)) is None


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (job(Fault("random", (), 4.0), family="fsdp", steps=12), "random"),
        (job(jitter=0.08, steps=12), None),
        (job(Fault("alternating", (1, 3), 1.6), steps=12), None),
        (job(UNEVEN, steps=12), None),
        (job(Fault("occasional_worker", (1,), 1.8, steps=(3, 7)), steps=12), None),
    ],
)
def test_few_steps_of_several_ranks_that_take_far_longer_are_chance(
    tmp_path: Path, spec: JobSpec, kind: str | None
) -> None:
    found = by_chance(view_of(tmp_path, spec))

    assert (None if found is None else found.kind) == kind


def test_unequal_work_is_told_by_its_passes_where_no_call_is_matched(tmp_path: Path) -> None:
    """No rank handles the same micro-batches as another, and exchanges have no groups."""
    spec = job(UNEVEN, family="moe", dp=4, micro_batches=4, steps=6, graphs=True)
    view = view_of(tmp_path, spec)
    assert find("verdict").run(view).details["verdict"] == "inconclusive"

    (found, *_) = find("findings").run(view).details["findings"]

    assert (found["class"], found["sure"]["what"]) == ("uneven_microbatches", "low")
