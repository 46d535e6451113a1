"""step_waterfall: the difference of two steps or ranks divided completely, idle time included."""

from __future__ import annotations

import itertools
import random

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world
from full_jobs import view_of
from msgspec.structs import replace
from worked import cpu_only, two_steps

from ccltui.metrics.compare.step_diff import OTHER_GROUPS, Side, step_waterfall
from ccltui.metrics.findings.rank_time.step_parts import step_parts
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace


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
