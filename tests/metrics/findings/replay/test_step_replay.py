"""Replays of generated lines in one compiled pass, and numbers in 4 and in 8 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Literal, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_jobs import Planted, planted_job

from ccltui.metrics.arrays import reductions
from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import extremes_by, places_among
from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.findings.replay.lines import call_table, line_operations, step_replay
from ccltui.metrics.findings.replay.lines.call_table import (
    MOST_IN_FOUR,
    Along,
    CallTable,
    JoinedCalls,
    Whole4,
)
from ccltui.metrics.findings.replay.lines.line_operations import Layout, Operations
from ccltui.metrics.findings.replay.lines.shared_positions import MARK, POST, WAIT
from ccltui.metrics.findings.replay.lines.step_lines import StepCalls
from ccltui.metrics.findings.replay.lines.step_replay import DeadlockError, Runs, StepReplay, Times
from ccltui.metrics.view.job_view import View
from ccltui.parsers.array_types import F64

compiled = pytest.mark.skipif(not available(), reason="the passes were not compiled")

Step = tuple[int, tuple[tuple[int, bool], ...]]
"""A seed, and of each call its instance, -1 for none, and whether it is behind the one before."""


def layout_of(step: Step) -> Layout:
    """Post every call, wait for some of them, and end; some operations end a segment."""
    seed, calls = step
    random = np.random.default_rng(seed)
    kind: list[int] = []
    call: list[int] = []
    for place in range(len(calls)):
        some = [POST, WAIT] if random.random() < 0.6 else [POST]
        kind += some
        call += [place] * len(some)
    ends = random.random(len(kind) + 1) < 0.6
    segment = np.where(ends, np.cumsum(ends) - 1, -1).astype(np.int32)
    return Layout(np.array([*kind, MARK], np.int8), np.array([*call, -1], np.int32), segment)


def job_of(steps: Sequence[Step], ranks: int, kind: type) -> tuple[CallTable, Operations]:
    """Ranks that do the same in each step, each with times of its own."""
    layouts = {step: layout_of(step) for step in steps}
    lines = [(number, step) for _ in range(ranks) for number, step in enumerate(steps)]
    first_call = np.cumsum([0, *(len(calls) for _, (_, calls) in lines)])
    of_line = [int((layouts[step].segment >= 0).sum()) for _, step in lines]
    behind = [
        begin + place - 1 if queued and place else -1
        for begin, (_, (_, calls)) in zip(first_call.tolist(), lines, strict=False)
        for place, (_, queued) in enumerate(calls)
    ]
    instance = [
        3 * number + one if one >= 0 else -1 for number, (_, calls) in lines for one, _ in calls
    ]
    random, count = np.random.default_rng(len(instance)), sum(of_line)
    table = SimpleNamespace(
        step_ids=np.arange(len(steps)),
        num_lines=len(lines),
        step=np.array([number for number, _ in lines], np.int64),
        first_call=first_call,
        instance=np.array(instance, np.int32),
        behind=np.array(behind, np.int32),
        dur_ns=random.integers(1, 90, len(instance)),
    )
    operations = Operations(
        first=np.cumsum([0, *of_line]),
        unit=np.where(random.random(count) < 0.2, -1, np.arange(count)).astype(np.int32),
        compute_ns=random.integers(0, 90, count).astype(kind),
        host_ns=random.integers(0, 90, count).astype(kind),
        profile_ns=[],
        wait_ns=random.integers(0, 90, (len(instance), 2)).astype(kind),
        layouts=list(layouts.values()),
        layout=np.array([list(layouts).index(step) for _, step in lines], np.int64),
        begun_ns=np.zeros(len(lines), np.int64),
        early=0,
        checked=0,
    )
    return cast("CallTable", table), operations


def replayed(steps: Sequence[Step], ranks: int, kind: type) -> tuple[float, F64, F64] | None:
    """Unlinked share, and replays without and with idle times; None where lines wait for ever."""
    table, operations = job_of(steps, ranks, kind)
    try:
        replay = StepReplay(table, operations)
    except DeadlockError:
        return None
    random, count = np.random.default_rng(7), len(operations.unit)
    transfer = 90 * random.random(3 * len(steps))
    scale = random.random(count + 1)
    shared = 90 * random.random(max(np.diff(operations.first), default=0) + 1)
    row = np.zeros(table.num_lines, np.int64)
    scaled = Along(shared, np.array([0, len(shared)]), row, scale)
    alone = replay.many([(operations.compute_ns, transfer), (scaled, transfer)] * 3)
    compute, host, wait = operations.compute_ns, operations.host_ns, operations.wait_ns
    own = Times(
        Along(compute, operations.first),
        Along(host, operations.first),
        Along(wait, table.first_call),
    )
    other = Times(scaled, Along(host[::-1].copy(), operations.first), own.wait_ns)
    is_other = random.random((3, table.num_lines)) < 0.5
    begin = 9 * random.random(is_other.shape)
    return replay.unlinked, alone, replay.line_ends(Runs(own, other, is_other, transfer, begin))


a_step = st.tuples(
    st.integers(0, 9), st.lists(st.tuples(st.integers(-1, 2), st.booleans()), max_size=6).map(tuple)
)
jobs = st.lists(a_step, min_size=1, max_size=3), st.integers(1, 3)


@compiled
@given(*jobs)
def test_compiled_replays_equal_those_in_python(steps: list[Step], ranks: int) -> None:
    # steps that come twice have one order
    steps = [*steps, steps[0]]
    one = replayed(steps, ranks, np.int32)
    with pytest.MonkeyPatch.context() as patch:
        for module in (step_replay, call_table):
            patch.setattr(module, "available", lambda: False)
        other = replayed(steps, ranks, np.int32)

    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one[0] == other[0]
        assert one[1].tolist() == other[1].tolist()
        assert one[2].tolist() == other[2].tolist()


@given(*jobs)
def test_eight_bytes_replay_as_four_do(steps: list[Step], ranks: int) -> None:
    one, other = (replayed(steps, ranks, kind) for kind in (np.int32, np.int64))

    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one[1].tolist() == other[1].tolist()
        assert one[2].tolist() == other[2].tolist()


def test_the_first_number_that_does_not_fit_gives_all_eight_bytes() -> None:
    found = Whole4(4)
    found.fill(slice(0, 2), np.array([MOST_IN_FOUR, -MOST_IN_FOUR]))
    four = found.values.dtype
    found.fill(slice(2, 4), np.array([1, MOST_IN_FOUR + 1]))

    assert four == np.int32
    assert found.values.dtype == np.int64
    assert found.values.tolist() == [MOST_IN_FOUR, -MOST_IN_FOUR, 1, MOST_IN_FOUR + 1]


@pytest.mark.parametrize(("forward_us", "kind"), [(4e2, np.int32), (3e6, np.int64)])
def test_passes_of_more_than_a_second_are_replayed_as_shorter_ones_are(
    forward_us: float, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Planted(dp=2, pp=1, micro_batches=2, steps=3, forward_us=forward_us, jitter=0.05)
    found = ladder_of(View(planted_job(plan)))
    for module in (step_replay, line_operations, call_table):
        monkeypatch.setattr(module, "available", lambda: False)
    other = ladder_of(View(planted_job(plan)))

    assert found.job.operations.compute_ns.dtype == kind
    assert found.job.table.start_ns.dtype == kind
    assert found.rungs.tolist() == other.rungs.tolist()
    assert found.replay_error < 0.001


def test_lines_that_share_numbers_have_them_all() -> None:
    row = np.array([1, 0, 1])
    found = Along(np.array([5.0, 6, 7]), np.array([0, 1, 3]), row)

    assert found.first.tolist() == [1, 0, 1]
    assert found.of_all().tolist() == [6, 7, 5, 6, 7]
    assert found.of_lines(slice(1, 3)).tolist() == [5, 6, 7]
    assert found.sums().tolist() == [13, 5, 13]


@given(st.lists(st.tuples(st.integers(-(1 << 40), 1 << 40), st.integers(-1, 3)), max_size=9))
def test_extremes_are_those_of_each_group(rows: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in rows], np.int64)
    group = np.array([number for _, number in rows], np.int32)
    one = extremes_by(values, group, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reductions, "available", lambda: False)
        other = extremes_by(values, group, 4)

    for found, again in zip(one, other, strict=True):
        assert found.tolist() == again.tolist()
    for number in range(-1, 4):
        mine = values[group == number]
        if len(mine):
            assert (one[0][number], one[1][number]) == (mine.min(), mine.max())


def test_calls_of_ranks_are_put_into_order_with_those_that_they_are_behind() -> None:
    joined = JoinedCalls(6)
    for first, num_lines in ((0, 2), (100, 1)):
        rows = np.arange(3)
        joined.add(
            StepCalls(
                row=rows,
                line=np.array([0, 0, num_lines - 1]),
                posted=rows,
                resumed=rows,
                waited=np.zeros(3, np.bool_),
                launched=np.ones(3, np.bool_),
                start_ns=first + rows,
                dur_ns=rows,
                behind=np.array([-1, 0, -1]),
            ),
            num_lines,
        )
    beside = np.array([5, 6, 7, 8, 9, 10])

    kept = joined.sort(slice(0, 3), np.arange(3), beside)
    moved = joined.sort(slice(3, 6), np.array([2, 0, 1]), beside)

    assert (kept.tolist(), moved.tolist()) == ([0, 1, 2], [4, 5, 3])
    assert joined.first == [0, 3, 6]
    assert joined.line.tolist() == [0, 0, 1, 2, 2, 2]
    assert joined.start_ns.values.tolist() == [0, 1, 2, 102, 100, 101]
    assert joined.behind.tolist() == [-1, 0, -1, -1, -1, 4]
    assert beside.tolist() == [5, 6, 7, 10, 8, 9]


few = st.lists(st.integers(-40, 40) | st.sampled_from([-(1 << 63), (1 << 63) - 1]), max_size=60)


@given(few, few, st.booleans(), st.sampled_from(["left", "right"]))
def test_places_are_those_of_a_search(
    ordered: list[int], values: list[int], ascend: bool, side: Literal["left", "right"]
) -> None:
    among = np.array(sorted(ordered), np.int64)
    wanted = np.array(sorted(values) if ascend else values, np.int64)

    found = places_among(among, wanted, side)

    assert found.tolist() == np.searchsorted(among, wanted, side).tolist()
