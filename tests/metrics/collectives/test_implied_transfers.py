"""The other rank of sends and receives that are one kernel, which names neither group nor peer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from calls_by_hand import Call, member

from ccltui.demo.planted import Fault, JobSpec, write_planted
from ccltui.metrics.catalog.time.pipeline_bubble import group_degree
from ccltui.metrics.collectives.clocks.clock_model import Clock, ClockModel
from ccltui.metrics.collectives.implied.implied_transfers import (
    CommonClock,
    has_batches,
    with_batches,
)
from ccltui.metrics.collectives.matching.match import RECV, SEND, SENDRECV, MatchInput
from ccltui.metrics.model.classify import COMP
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

PIPELINE = CommGroup((0, 1), "1", "pipeline", dim="pp", label="pp 0,1", size=2)
SHAPE = {
    "family": "pp",
    "micro_batches": 8,
    "layers": 2,
    "steps": 4,
    "gpus_per_node": 4,
    "clock_offsets_ns": (40_000_000, -7_000_000, 90_000_000, 1_000_000),
    "batched": True,
    "prefetch": False,
    "coalesced": True,
}

ALL_FORWARD_FIRST = {**SHAPE, "batched": False, "schedule": "gpipe", "micro_batches": 4}
"""GPipe: each batch is a single transfer."""


def facts_of(inputs: list[MatchInput], *names: str) -> Callable[[str], RankFacts]:
    """Return ranks that run a kernel of a name of theirs behind each batch, or nothing."""

    def of(label: str) -> RankFacts:
        rank = next(index for index, item in enumerate(inputs) if item.label == label)
        starts = inputs[rank].calls.end_ns[: None if names else 0] + 1_000
        events = SimpleNamespace(start_ns=starts, name=np.zeros(len(starts), np.int32))
        trace = SimpleNamespace(group=lambda _: events, text=lambda _: names[rank])
        return cast("RankFacts", SimpleNamespace(classes=np.full(len(starts), COMP), trace=trace))

    return of


def same_clock(inputs: list[MatchInput]) -> CommonClock:
    known = Clock(residual_p50_ns=500, residual_p95_ns=2_000, n=50, component=0, known=True)
    clocks = {item.label: known for item in inputs}
    model = ClockModel(clocks, "dependent collectives", 2_000, 2_000)
    return CommonClock.of_model(model, inputs)


def exchanging(
    *pairs: tuple[int, int], together_us: float = 0.0, steps: int = 4, each: int = 6
) -> list[MatchInput]:
    """Ranks whose batches end together, and begin apart: by up to 300 us, or all at once."""
    rng = np.random.default_rng(3)
    ranks = sorted({rank for pair in pairs for rank in pair})
    rows: dict[int, list[Call]] = {rank: [] for rank in ranks}
    for number in range(steps * each):
        base = 1_000.0 * number
        for place, pair in enumerate(pairs):
            apart = together_us * place if together_us else float(rng.uniform(0, 700))
            end = base + 350 + apart
            late = int(rng.integers(2))
            for side, rank in enumerate(pair):
                length = 40.0 if side == late else 40 + float(rng.uniform(50, 300))
                shown = end + float(rng.uniform(0, 2))
                step = number // each
                rows[rank].append(Call(shown - length, shown, "SendRecv", group=-1, step=step))
    return [member(rank, sorted(rows[rank], key=lambda one: one.start_us)) for rank in ranks]


def test_batches_are_paired_in_the_pipeline_that_files_name() -> None:
    inputs = exchanging((0, 1), each=5)

    found = with_batches(inputs, [PIPELINE], same_clock(inputs), facts_of(inputs))

    assert found is not None
    (lower, upper), groups = found
    assert groups == (PIPELINE,)
    assert set(lower.calls.group.tolist()) == {0}
    first, last = np.arange(20) % 5 == 0, np.arange(20) % 5 == 4
    assert lower.calls.kind.tolist() == np.select([first, last], [SEND, RECV], SENDRECV).tolist()
    assert upper.calls.kind.tolist() == np.select([first, last], [RECV, SEND], SENDRECV).tolist()
    between = lower.calls.kind == SENDRECV
    assert set(zip(lower.calls.src[between], lower.calls.dst[between], strict=True)) == {(1, 1)}


def test_ranks_at_one_distance_are_partners_where_no_file_names_a_pipeline() -> None:
    inputs = exchanging((0, 2), (1, 3))

    stages = facts_of(inputs, "forward", "forward", "backward", "backward")
    found = with_batches(inputs, [], same_clock(inputs), stages)

    assert found is not None
    changed, groups = found
    assert [group.ranks for group in groups] == [(0, 2), (1, 3)]
    assert [set(item.calls.dst[item.calls.kind == SENDRECV].tolist()) for item in changed] == [
        {2},
        {3},
        {0},
        {1},
    ]


def test_it_is_not_known_how_stages_begin_where_ranks_are_missing() -> None:
    inputs = exchanging((0, 2), (1, 3))

    stages = facts_of(inputs, "forward", "forward", "backward", "backward")
    found = with_batches(inputs, [], same_clock(inputs), stages, world_size=6)

    assert found is not None
    assert all((item.calls.kind == SENDRECV).all() for item in found[0])


@pytest.mark.parametrize("names", [("gemm", "gemm"), ()])
@pytest.mark.parametrize("groups", [[], [PIPELINE]])
def test_ranks_of_one_program_that_exchange_data_are_no_stages(
    names: tuple[str, ...], groups: list[CommGroup]
) -> None:
    inputs = exchanging((0, 1))

    found = with_batches(inputs, groups, same_clock(inputs), facts_of(inputs, *names))

    # Where nothing runs behind the batches, only a file tells that these are stages.
    assert (found is not None) == (bool(groups) and not names)


@pytest.mark.parametrize(
    "inputs",
    [
        # An exchange of four ranks ends on all of them: no two are partners.
        [
            member(
                rank,
                [
                    Call(1000.0 * k + 3 * rank, 1000.0 * k + 400, "SendRecv", group=-1)
                    for k in range(20)
                ],
            )
            for rank in range(4)
        ],
        # Nothing ends together.
        [
            member(
                rank,
                [
                    Call(1000.0 * k + 90 * rank, 1000.0 * k + 90 * rank + 60, "SendRecv", group=-1)
                    for k in range(20)
                ],
            )
            for rank in range(4)
        ],
    ],
)
def test_batches_of_no_pairs_stay_as_they_are(inputs: list[MatchInput]) -> None:
    assert has_batches(inputs)
    kernels = facts_of(inputs, "a", "b", "c", "d")
    assert with_batches(inputs, [], same_clock(inputs), kernels) is None


def test_clocks_that_are_not_known_pair_nothing() -> None:
    inputs = exchanging((0, 1))
    model = ClockModel({item.label: Clock() for item in inputs}, "none")
    clock = CommonClock.of_model(model, inputs)

    assert with_batches(inputs, [PIPELINE], clock, facts_of(inputs)) is None


@pytest.mark.parametrize(
    ("spec", "verdict", "ranks"),
    [
        (
            JobSpec(**SHAPE, dp=2, pp=4, faults=(Fault("heavy_stage", (4, 5), 1.7, stage=2),)),  # type: ignore[arg-type]
            "heavy_stage",
            ["4", "5"],
        ),
        (
            JobSpec(  # nothing but kernels: no group, no step, no launch
                **SHAPE,  # type: ignore[arg-type]
                dp=2,
                pp=4,
                level="kernels",
                faults=(Fault("slow_worker", (3,), 1.6),),
            ),
            "slow_worker",
            ["3"],
        ),
        (
            JobSpec(  # fewer micro-batches than stages: all are sent before any comes back
                **{**SHAPE, "micro_batches": 2},  # type: ignore[arg-type]
                dp=2,
                pp=4,
                faults=(Fault("slow_worker", (3,), 1.6),),
            ),
            "slow_worker",
            ["3"],
        ),
        (
            JobSpec(**SHAPE, dp=4, pp=2, faults=(Fault("slow_worker", (5,), 1.6),)),  # type: ignore[arg-type]
            "slow_worker",
            ["5"],
        ),
        (
            JobSpec(**SHAPE, dp=2, pp=2, faults=(Fault("slow_pair", (0, 2), 12.0),)),  # type: ignore[arg-type]
            "slow_link",
            ["0", "2"],
        ),
        (
            JobSpec(**ALL_FORWARD_FIRST, dp=2, pp=4, faults=(Fault("slow_worker", (7,), 1.6),)),  # type: ignore[arg-type]
            "slow_worker",
            ["7"],
        ),
        (
            JobSpec(
                **ALL_FORWARD_FIRST,  # type: ignore[arg-type]
                dp=2,
                pp=2,
                level="kernels",
                faults=(Fault("slow_worker", (3,), 1.6),),
            ),
            "slow_worker",
            ["3"],
        ),
    ],
)
def test_a_pipeline_of_batches_is_replayed_as_one_of_single_transfers(
    tmp_path: Path, spec: JobSpec, verdict: str, ranks: list[str]
) -> None:
    truth = write_planted(tmp_path, spec).truth

    view = View(open_job(tmp_path))
    found = find("verdict").run(view).details

    assert group_degree(view) in (None, spec.pp)
    assert (found["verdict"], found["culprit"]["ranks"]) == (verdict, ranks)
    assert found["confidence"] == "medium"  # the order of the stages is assumed
    assert found["ladder_ms"][-1] == pytest.approx(truth.step_ms, rel=0.01)
    if verdict != "heavy_stage":  # its work is shared out, and not taken away
        assert found["saves_ms"] == pytest.approx(truth.faults[0].cost_ms, rel=0.05)
