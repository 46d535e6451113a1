"""The order of a replay, and the replay along it: by hand, and compiled as in Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.findings.replay.lines.line_operations import MARK, POST, WAIT
from ccltui.metrics.findings.replay.lines.step_replay import (
    BEGIN,
    END,
    PUT_OFF,
    DeadlockError,
    Program,
    Schedule,
    ordered,
    replay_marks,
)

Call = tuple[int, int]  # its instance, and how many calls before it the one is that keeps it
Line = tuple[list[Call], list[int]]  # its calls, and those whose end is awaited behind each

compiled = pytest.mark.skipif(not available(), reason="the passes were not compiled")


def program_of(lines: Sequence[Line]) -> Program:
    """Lines that post every call, wait for some of them and end with a mark."""
    kind: list[int] = []
    which: list[int] = []
    first, behind, before = [0], [], 0
    for calls, awaited in lines:
        for index in range(len(calls)):
            kind.append(POST)
            which.append(before + index)
            if index < len(awaited) and awaited[index] <= index:
                kind.append(WAIT)
                which.append(before + awaited[index])
        kind.append(MARK)
        which.append(0)
        first.append(len(kind))
        places = [(index - back, index) for index, (_, back) in enumerate(calls)]
        behind += [before + place if 0 <= place < index else -1 for place, index in places]
        before += len(calls)
    instance = np.array([one for calls, _ in lines for one, _ in calls], np.int64)
    operations = np.array(first), np.array(kind, np.int8), np.array(which, np.int64)
    return Program.of(operations, np.array(behind, np.int64), instance, 4)


def scheduled(program: Program, accelerated: str) -> Schedule | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCLTUI_ACCEL", accelerated)
        available.cache_clear()
        try:
            return ordered(program)
        except DeadlockError:
            return None
        finally:
            available.cache_clear()


a_call = st.tuples(st.integers(-1, 3), st.integers(0, 3))
a_line = st.tuples(st.lists(a_call, max_size=8), st.lists(st.integers(0, 7), max_size=8))


@compiled
@given(st.lists(a_line, min_size=1, max_size=4))
def test_both_find_the_same_order(lines: list[Line]) -> None:
    program = program_of(lines)

    one, other = scheduled(program, "1"), scheduled(program, "0")

    assert (one is None) == (other is None)
    if one is None or other is None:
        return
    for field in ("kind", "line", "operation", "which"):
        assert getattr(one, field).tolist() == getattr(other, field).tolist()


TWO: list[Line] = [([(0, 0)], [0]), ([(0, 0), (-1, 1)], [9, 1])]
"""Call 0 of both is one collective, awaited by the first; the second queues call 1 behind it."""


@pytest.mark.parametrize("accelerated", [pytest.param("1", marks=compiled), "0"])
def test_an_order_by_hand(accelerated: str) -> None:
    schedule = scheduled(program_of(TWO), accelerated)

    assert schedule is not None
    told = zip(schedule.kind.tolist(), schedule.line.tolist(), schedule.which.tolist(), strict=True)
    # line 1 runs first and posts call 1 (its second is 2) behind an end that does not follow yet
    assert list(told) == [
        (POST, 1, 1),
        (PUT_OFF, 1, 2),
        (POST, 0, 0),
        (END, -1, 0),
        (BEGIN, -1, 2),
        (WAIT, 0, 0),
        (MARK, 0, 0),
        (WAIT, 1, 2),
        (MARK, 1, 0),
    ]


def test_a_replay_by_hand() -> None:
    schedule = scheduled(program_of(TWO), "0")
    assert schedule is not None
    before = np.array([10.0, 0.0, 1.0, 30.0, 1.0, 9.0, 4.0, 0.0])  # of each operation, and of none
    after, calls = np.array([50, 60, 5]), (np.array([0, 0, 3]), np.array([0, 0, 6]))

    marks = replay_marks(schedule, np.zeros(2), before.take(schedule.operation), after, calls)

    # line 1 begins its first call at 30, so that it ends at 80 on line 0 and at 90 on line 1; its
    # second begins 6 after that and takes 5
    assert marks.tolist() == [81.0, 105.0]


@pytest.mark.parametrize("accelerated", [pytest.param("1", marks=compiled), "0"])
def test_collectives_in_which_lines_wait_for_each_other_are_none(accelerated: str) -> None:
    # each awaits a collective before it posts the one that the other awaits; a third holds
    one: Line = ([(0, 0), (1, 0), (2, 0)], [0])
    other: Line = ([(1, 0), (0, 0), (2, 0)], [0])

    schedule = scheduled(program_of([one, other]), accelerated)

    assert schedule is not None
    assert schedule.program.instance.tolist() == [-1, -1, 2, -1, -1, 2]
