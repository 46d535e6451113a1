"""The difference of two steps, in parts and as a waterfall."""

from __future__ import annotations

import itertools
import random

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world
from full_jobs import view_of
from msgspec.structs import replace
from worked import cpu_only, two_steps

from ccltui.metrics.arrays.sequence_diff import TooDifferentError
from ccltui.metrics.compare.step_diff import (
    ADDED,
    MATCHED,
    MISSING_HERE,
    OTHER_GROUPS,
    Side,
    StepDiff,
    step_diff,
    step_waterfall,
)
from ccltui.metrics.findings.rank_time.step_parts import step_parts
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace


def rows_of(found: StepDiff) -> list[tuple[int, str, int]]:
    """Op, name and change in us of every row."""
    return [
        (int(op), found.names[name], int(change) // 1000)
        for op, name, change in zip(found.op, found.name, found.change_ns, strict=True)
    ]


def compare(one: RankTrace, other: RankTrace) -> StepDiff:
    return step_diff(View(job(one, other)), Side("0"), Side("1"))


def test_added_missing_and_matched() -> None:
    one = rank_trace(0, gpu=[kernel("a", 0, 10), kernel("b", 20, 10), kernel("c", 40, 10)])
    other = rank_trace(
        1, gpu=[kernel("x", 5, 1), kernel("a", 10, 14), kernel("c", 30, 7), kernel("d", 50, 3)]
    )
    found = compare(one, other)

    assert rows_of(found) == [
        (MATCHED, "a", 4),
        (ADDED, "x", 1),  # before anything matched: at 0
        (MISSING_HERE, "b", -10),
        (MATCHED, "c", -3),
        (ADDED, "d", 3),
    ]
    assert [found.count(op) for op in (MATCHED, ADDED, MISSING_HERE)] == [2, 2, 1]
    assert found.total_ns(MATCHED) == 1000
    assert found.start_ns[1].tolist() == [5_000, 0, -1, 25_000, 45_000]  # since its first work
    assert (found.extent_ns(0), found.extent_ns(1)) == (50_000, 48_000)
    assert found.largest_first[:2].tolist() == [2, 0]


def test_each_stream_is_matched_separately() -> None:
    one = rank_trace(0, gpu=[kernel("a", 0, 1, 7), kernel("b", 1, 1, 9), kernel("a", 2, 1, 7)])
    other = rank_trace(1, gpu=[kernel("b", 0, 1, 9), kernel("a", 1, 1, 7), kernel("a", 2, 1, 7)])
    found = compare(one, other)

    assert found.count(MATCHED) == 3
    assert set(found.streams) == {"7", "9"}
    assert [found.streams[i] for i in found.stream] == ["7", "9", "7"]


def test_streams_of_other_numbers_are_paired_by_their_work() -> None:
    one = rank_trace(0, gpu=[kernel("a", 0, 1, 7), kernel("a", 2, 1, 7)])
    other = rank_trace(1, gpu=[kernel("a", 0, 1, 30), kernel("a", 2, 2, 30)])
    found = compare(one, other)

    assert (found.count(MATCHED), found.streams) == (2, ("7/30",))


def test_two_steps_of_one_rank() -> None:
    trace = rank_trace(
        0,
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        runtime=[launch(i, t) for i, t in ((1, 5), (2, 105), (3, 110))],
        gpu=[
            Event("a", 10, 5, correlation=1),
            Event("a", 120, 8, correlation=2),
            Event("b", 130, 8, correlation=3),
        ],
    )
    found = step_diff(View(job(trace)), Side("0", 1), Side("0", 2))

    assert rows_of(found) == [(MATCHED, "a", 3), (ADDED, "b", 8)]


def test_a_side_without_work_matches_nothing() -> None:
    found = compare(rank_trace(0, gpu=[kernel("a", 0, 1)]), rank_trace(1))

    assert rows_of(found) == [(MISSING_HERE, "a", -1)]


def test_unknown_ranks_and_unrelated_sequences_are_refused() -> None:
    one = rank_trace(0, gpu=[kernel("a", i, 1) for i in range(2000)])
    other = rank_trace(1, gpu=[kernel("b", i, 1) for i in range(2000)])

    with pytest.raises(KeyError):
        step_diff(View(job(one)), Side("0"), Side("9"))
    with pytest.raises(TooDifferentError, match="3,000 kernels differ"):
        compare(one, other)


def test_two_steps_by_hand() -> None:
    found = step_waterfall(View(job(two_steps())), Side("0", 1), Side("0", 2))

    # windows [10,100) and [100,160): exposed [50,80) and [150,160); after the first 20 are idle,
    # and the second is the last: the gemm that ends the idle time was launched at 105
    assert found.total_ns == (90_000, 60_000)
    assert found.difference_ns == -30_000
    assert found.changes_ns == [
        (("compute", "compute"), 10_000),
        (("communication", "unknown"), -20_000),
        (("idle", "host_other"), -20_000),
    ]


def test_the_time_between_steps_is_idle_time_by_cause() -> None:
    marks = [step(number, 100 * number, 100) for number in range(4)]
    starts = (5, 110, 260, 330)  # the third step begins 60 after its marker
    trace = rank_trace(
        0,
        annotations=marks,
        runtime=[launch(i, 100 * i + 1) for i in range(4)],
        gpu=[Event("gemm", at, 20, correlation=i) for i, at in enumerate(starts)],
    )
    view = View(job(trace))

    found = step_waterfall(view, Side("0", 1), Side("0", 2))
    # idle [130,260), of which the launch came at 201; idle [280,330), launched at 301
    assert found.one["idle", "host_other"] == 71_000
    assert found.one["idle", "launch_latency"] == 59_000
    assert found.other["idle", "host_other"] == 21_000
    assert found.other["idle", "launch_latency"] == 29_000
    assert found.total_ns == (150_000, 70_000)  # from first work to first work
    assert found.difference_ns == -80_000


def drawn(rng: random.Random, rank: int) -> RankTrace:
    """Four steps of work at random times on three streams, launched at random times before."""
    gpu: list[Event] = []
    runtime: list[Event] = []
    for number in range(4):
        for _ in range(rng.randrange(1, 12)):
            at = 1000 * number + rng.randrange(900)
            row = len(gpu) + 1
            dur = rng.randrange(1, 300)
            kind = rng.randrange(3)
            if kind == 0:
                event = kernel("gemm", at, dur, correlation=row)
            elif kind == 1:
                event = replace(copy(at, dur, 8), correlation=row)
            else:
                one = allreduce(at, dur, Coll("allreduce", 8, 8), 20)
                event = replace(one, correlation=row)
            gpu.append(event)
            runtime.append(launch(row, 1000 * number + rng.randrange(50)))
    return rank_trace(
        rank,
        gpu=sorted(gpu, key=lambda event: event.start_us),
        runtime=sorted(runtime, key=lambda event: event.start_us),
        annotations=[step(number, 1000 * number, 1000) for number in range(4)],
        groups=[world(2)],
        world_size=2,
    )


@pytest.mark.parametrize("seed", range(25))
def test_the_parts_add_up_to_the_whole_difference(seed: int) -> None:
    rng = random.Random(seed)
    view = View(job(drawn(rng, 0), drawn(rng, 1)))
    sides = [Side(label, number) for label in "01" for number in range(4)]
    parts = step_parts(view)

    for one, other in itertools.permutations(rng.sample(sides, 4), 2):
        found = step_waterfall(view, one, other)
        assert sum(change for _, change in found.changes_ns) == found.difference_ns
        for side, mine in ((one, found.one), (other, found.other)):
            column, row = int(side.label), parts.steps.index(side.step or 0)
            assert sum(mine.values()) == parts.length_ns[row, column]
            assert OTHER_GROUPS not in mine
            assert all(ns >= 0 for ns in mine.values())


@pytest.mark.parametrize("name", ["training", "pipelined"])
def test_two_ranks_over_all_their_time(name: str) -> None:
    view = view_of(name)
    found = step_waterfall(view, Side("0"), Side("3"))

    windows = [next(r.window_ns for r in view.ranks if r.label == label) for label in "03"]
    assert list(found.total_ns) == windows
    assert sum(change for _, change in found.changes_ns) == windows[1] - windows[0]


def test_collectives_of_groups_that_are_not_selected_are_a_part_of_their_own() -> None:
    view = View(view_of("training").job, ViewOptions(group="ep"))
    found = step_waterfall(view, Side("0", 0), Side("3", 0))

    assert found.one[OTHER_GROUPS] > 0
    assert sum(change for _, change in found.changes_ns) == found.difference_ns


def test_what_it_needs() -> None:
    with pytest.raises(KeyError, match="rank 1 has no device work in step 2"):
        step_waterfall(View(job(two_steps(), cpu_only(1))), Side("0", 1), Side("1", 2))
    with pytest.raises(Refusal):
        step_waterfall(View(job(two_steps())), Side("0", 7), Side("0", 2))
    with pytest.raises(Refusal):
        step_waterfall(View(job(cpu_only())), Side("0"), Side("0"))
