"""The order of a replay: delays of calls, needs of the host, ranks apart, programs in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from factories import allreduce, job, kernel, rank_trace, step, world
from hypothesis import given
from hypothesis import strategies as st

from ccltui.demo.planted import JobSpec, write_planted
from ccltui.demo.planted.job_spec import Fault
from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.findings.replay.lines.call_table import CallTable
from ccltui.metrics.findings.replay.lines.line_operations import own_delays
from ccltui.metrics.findings.replay.lines.shared_positions import MARK, POST, WAIT
from ccltui.metrics.findings.replay.lines.step_replay import (
    BEGIN,
    END,
    PUT_OFF,
    DeadlockError,
    Program,
    Schedule,
    ordered,
    replay_lines,
)
from ccltui.metrics.findings.replay.verdict_rules import alone_reasons, longer_alone, ranks_alone
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.job import open_job

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
    after, calls = np.array([50.0, 60, 5]), (np.array([0.0, 0, 3]), np.array([0.0, 0, 6]))

    ends = replay_lines(schedule, np.zeros(2), before.take(schedule.operation), after, calls)

    # line 1 begins its first call at 30, so that it ends at 80 on line 0 and at 90 on line 1; its
    # second begins 6 after that and takes 5
    assert ends.tolist() == [81.0, 105.0]


@pytest.mark.parametrize("accelerated", [pytest.param("1", marks=compiled), "0"])
def test_collectives_in_which_lines_wait_for_each_other_are_none(accelerated: str) -> None:
    # each awaits a collective before it posts the one that the other awaits; a third holds
    one: Line = ([(0, 0), (1, 0), (2, 0)], [0])
    other: Line = ([(1, 0), (0, 0), (2, 0)], [0])

    schedule = scheduled(program_of([one, other]), accelerated)

    assert schedule is not None
    assert schedule.program.instance.tolist() == [-1, -1, 2, -1, -1, 2]


UNKNOWN = -1
DELAY = np.array([500_000, 300_000, 400_000, 7_000])
"""Of three members of one call, and of a call of its own."""


def table(*durations: int, launched: bool = True) -> CallTable:
    """Calls of one instance, and one of none."""
    part = SimpleNamespace(
        instance=np.array([0] * len(durations) + [-1], np.int32),
        dur_ns=np.array([*durations, 1_000]),
        transfer_ns=np.array([min(durations)]),
        launched=np.full(len(durations) + 1, launched),
    )
    return cast("CallTable", part)


@pytest.mark.parametrize(
    ("lead", "expected"),
    [
        ((2_000, 480_000, 380_000), [500_000, 0, 0]),
        ((2_000, 480_000, 3_000), [500_000, 0, 400_000]),
        ((90_000, 480_000, 380_000), [300_000] * 3),  # no launch was just before the begin
        ((2_000, UNKNOWN, 380_000), [300_000] * 3),
        (None, [300_000] * 3),
    ],
)
def test_a_delay_of_all_is_of_the_host_that_launched_last(
    lead: tuple[int, ...] | None, expected: list[int]
) -> None:
    def leads() -> I64:
        return np.array([*(lead or ()), UNKNOWN])

    found = own_delays(DELAY, table(9_000, 9_000, 9_500), 20_000, None if lead is None else leads)

    assert found.tolist() == [*expected, 7_000]


def test_members_that_wait_in_the_call_have_delays_of_their_own() -> None:
    found = own_delays(DELAY, table(9_000, 90_000, 9_500), 20_000, lambda: np.zeros(4, np.int64))

    assert found.tolist() == DELAY.tolist()


@pytest.mark.parametrize(("launched", "delay"), [(False, 0), (True, 6_700_000)])
def test_without_launches_members_that_begin_together_wait_for_the_last(
    launched: bool, delay: int
) -> None:
    # the kernels differ by 30 us, the hosts would be late by 6.7 ms and by nothing
    delays = np.array([0, 6_700_000, 7_000])
    found = own_delays(delays, table(1_358_000, 1_328_000, launched=launched), 20_000)

    assert found.tolist() == [0, delay, 7_000]


def test_nothing_is_looked_up_where_nobody_is_late() -> None:
    def never() -> I64:
        raise AssertionError("launches are looked up")

    found = own_delays(DELAY // 100, table(9_000, 9_000, 9_500), 20_000, never)

    assert found.tolist() == [3_000, 3_000, 3_000, 70]


SLOW = Fault("slow_worker", (3,), 1.5)
BLOCKED = Fault("synchronisation", (3,), extra_ns=3_000_000)


def spec_of(fault: Fault, *, host_sync: bool = False) -> JobSpec:
    """A step whose launches take as long as its kernels do."""
    return JobSpec(
        family="tp",
        dp=2,
        tp=2,
        gpus_per_node=4,
        steps=6,
        micro_batches=4,
        layers=1,
        kernel_ns=49_000,
        transfer_ns=67_000,
        host_op_ns=52_000,
        host_sync=host_sync,
        faults=(fault,),
        clock_offsets_ns=(0,),
        clock_drifts_ppb=(0,),
        seed=5,
    )


@pytest.mark.parametrize("fault", [SLOW, BLOCKED], ids=["slow_worker", "host"])
@pytest.mark.parametrize("host_sync", [False, True])
def test_no_more_is_saved_than_the_launches_of_the_hosts_allow(
    fault: Fault, host_sync: bool, tmp_path: Path
) -> None:
    truth = write_planted(tmp_path / "job", spec_of(fault, host_sync=host_sync)).truth
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache", jobs=1))
    found = find("verdict").run(view).details

    assert found["culprit"]["ranks"] == ["3"], found["why"]
    assert found["saves_ms"] == pytest.approx(truth.faults[0].cost_ms, rel=0.1)


def test_waiting_for_the_device_is_no_need_of_a_host(tmp_path: Path) -> None:
    # synchronized after every step: its period is that of the device
    write_planted(tmp_path / "job", spec_of(Fault("slow_worker", (3,), 3.0), host_sync=True))
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache", jobs=1))
    ladder = ladder_of(view)

    assert (ladder.typical_need_ns[1:] > 0).all()
    assert (ladder.host_need_ns < 0.8 * ladder.rungs[6]).all()


WORK_US = 400


def traces(longer_us: float, *, alone: bool = True, num_steps: int = 5) -> list[RankTrace]:
    """Four ranks that compute and meet once a step.

    Rank 3 computes longer, and where it is alone it makes only half of the calls of the others.
    """
    meet = WORK_US + longer_us + 60
    length = meet + 31  # no idle time between steps
    found = []
    for rank in range(4):
        gpu = []
        for i in range(num_steps):
            begin = i * length
            work = WORK_US + (longer_us if rank == 3 else 0) + (i * 7 + rank * 3) % 5 / 10
            gpu.append(kernel("gemm", begin, work, 7))
            gpu.append(allreduce(begin + work + 1, meet - work))
            if alone and rank != 3:
                gpu.append(kernel("ncclDevKernel_Broadcast_RING_LL", begin + meet + 1.2, 0.6, 20))
            gpu.append(kernel("adam", begin + meet + 2, 29, 7))
        marks = [step(i, i * length, length) for i in range(num_steps)]
        found.append(rank_trace(rank, gpu=gpu, annotations=marks, groups=[world(4)]))
    return found


def verdict_on(ranks: list[RankTrace]) -> Result:
    return find("verdict").run(View(job(*ranks)))


def test_a_rank_with_calls_of_its_own_is_not_cleared() -> None:
    found = verdict_on(traces(200))

    assert (found.details["verdict"], found.details["confidence"]) == ("inconclusive", None)
    assert "rank 3 computes 200 us longer" in found.details["why"]
    assert found.status == "partial"
    assert "3" in {reason.rank for reason in found.reasons}


def test_without_calls_of_its_own_the_same_rank_is_named() -> None:
    found = verdict_on(traces(200, alone=False))

    assert found.details["verdict"] == "slow_worker"
    assert found.details["culprit"]["ranks"] == ["3"]


def test_a_rank_alone_that_computes_no_longer_lowers_the_confidence_that_nobody_is_slow() -> None:
    alone, alike = verdict_on(traces(0)), verdict_on(traces(0, alone=False))

    assert alone.details["verdict"] == alike.details["verdict"] == "no_straggler"
    assert (alone.details["confidence"], alike.details["confidence"]) == ("low", "high")
    assert (alone.status, alike.status) == ("partial", "ok")


@pytest.mark.parametrize(("least_share", "told"), [(0.1, True), (0.5, False)])
def test_longer_compute_counts_from_a_share_of_the_step(least_share: float, told: bool) -> None:
    ladder = ladder_of(View(job(*traces(200))))

    assert ranks_alone(ladder).tolist() == [3]
    assert (longer_alone(ladder, least_share) is not None) is told


def test_ranks_that_are_all_alone_are_refused_as_a_whole() -> None:
    pair = traces(200)[2:]
    ladder = ladder_of(View(job(*pair)))

    assert ranks_alone(ladder).tolist() == []
    assert alone_reasons(ladder) == []


LENGTH_US = 1000.0


def sets_of_ranks(calls: Mapping[int, Sequence[str]]) -> set[frozenset[int]]:
    """Sets of ranks that are compared; ``calls`` gives those of each step, A and B, by rank."""
    traces = []
    for rank, steps in calls.items():
        gpu = []
        for number, made in enumerate(steps):
            begin = number * LENGTH_US
            for place, kind in enumerate(made):
                at = begin + 90 * place
                gpu.append(kernel("gemm", at, 50 + rank / 10, 7))
                if kind == "A":
                    gpu.append(allreduce(at + 60, 20))
                else:
                    gpu.append(kernel("ncclDevKernel_Broadcast_RING_LL", at + 60, 20, 20))
        marks = [step(n, n * LENGTH_US, LENGTH_US) for n in range(len(steps))]
        traces.append(rank_trace(rank, gpu=gpu, annotations=marks, groups=[world(len(calls))]))
    place = ladder_of(View(job(*traces))).targets.place.tolist()
    return {frozenset(r for r in calls if place[r] == one) for one in place}


PLAIN = ["AAA"] * 4


@pytest.mark.parametrize(
    ("rank_0", "why"),
    [
        (["AAAB"] * 4, "one call more in every step"),
        (["AAABBBBB"] * 4, "more calls of its own than shared ones"),
        (["AAA", "AAAB"] * 2, "one call more in every other step"),
        (["AAAB", "AAABB", "AAABBB", "AAABBBB"], "steps that all differ"),
    ],
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_makes_all_calls_of_the_others_is_compared_with_them(
    rank_0: list[str], why: str, ranks: int
) -> None:
    found = sets_of_ranks({0: rank_0, **dict.fromkeys(range(1, ranks), PLAIN)})

    assert found == {frozenset(range(ranks))}, why


def test_a_rank_with_less_than_half_of_the_calls_of_the_others_is_alone() -> None:
    found = sets_of_ranks({0: ["A"] * 4, **dict.fromkeys(range(1, 4), PLAIN)})

    assert found == {frozenset({0}), frozenset({1, 2, 3})}


def test_a_rank_whose_steps_lack_different_calls_is_alone() -> None:
    lacking = ["AA", "A", "AAA", "AA", "A", "AAA"]
    found = sets_of_ranks({0: lacking, **dict.fromkeys(range(1, 4), ["AAA"] * 6)})

    assert found == {frozenset({0}), frozenset({1, 2, 3})}


def test_ranks_whose_steps_differ_alike_are_compared() -> None:
    steps = ["A", "AA", "AAA"]

    assert sets_of_ranks(dict.fromkeys(range(3), steps)) == {frozenset(range(3))}


def test_two_ranks_that_are_alike_are_not_joined_with_others() -> None:
    found = sets_of_ranks({0: ["AAAB"] * 4, 1: ["AAAB"] * 4, **dict.fromkeys(range(2, 5), PLAIN)})

    assert found == {frozenset({0, 1}), frozenset({2, 3, 4})}


def test_of_a_single_step_ranks_with_other_calls_are_not_compared() -> None:
    assert len(sets_of_ranks({0: ["AAAB"], 1: ["AAA"], 2: ["AAA"]})) == 2
