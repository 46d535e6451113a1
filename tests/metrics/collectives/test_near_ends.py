"""Streams compared by the ends of their calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from calls_by_hand import Call, member
from factories import Coll, allreduce, job, rank_trace, world
from msgspec.structs import replace

from ccltui.metrics.arrays.compiled import has_near_ends
from ccltui.metrics.collectives.clocks import clock_estimate
from ccltui.metrics.collectives.clocks.clock_estimate import Observation, solve, standard_errors
from ccltui.metrics.collectives.implied import implied_groups, stream_clocks, stream_evidence
from ccltui.metrics.collectives.implied.implied_groups import Implied
from ccltui.metrics.collectives.implied.stream_clocks import RankClock
from ccltui.metrics.collectives.implied.stream_evidence import HostCalls, Queue, queues_of
from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.view.job_view import View
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import RankTrace

KINDS = ("AllReduce", "AllGather", "SendRecv")
Drawn = tuple[list[MatchInput], dict[str, I64]]


def drawn(seed: int) -> Drawn:
    """Calls of two to eight ranks in one to four groups, of which some files lack some.

    Hosts have clocks that are apart and drift, ends scatter, and some groups are in step.
    """
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(2, 9))
    rows: dict[int, list[tuple[Call, int]]] = {rank: [] for rank in range(ranks)}
    steps = int(rng.integers(3, 30))
    for place in range(int(rng.integers(1, 5))):
        members = np.flatnonzero(rng.random(ranks) < 0.7)
        stream, kind = int(rng.integers(7, 10)), KINDS[int(rng.integers(len(KINDS)))]
        scatter = float(rng.choice([2, 20, 90]))
        for step in range(steps):
            end = 3000.0 * step + 60 * place + float(rng.uniform(0, 400))
            for rank in members.tolist():
                begin = end - float(rng.uniform(10, 300))
                call = Call(begin, end + float(rng.uniform(0, scatter)), kind, group=-1)
                rows[rank].append((call, stream))
    hosts = rng.integers(0, 3, ranks)
    shift_us = rng.uniform(-4000, 4000, 3)
    inputs, streams = [], {}
    for rank, calls in rows.items():
        kept = [row for row in calls if rng.random() > 0.03]
        kept.sort(key=lambda row: row[0].start_us)
        host = f"node{hosts[rank]}" if seed % 3 else ""
        shift = float(shift_us[hosts[rank]])
        inputs.append(member(rank, [call for call, _ in kept], shift_us=shift, host=host))
        streams[str(rank)] = np.array([stream for _, stream in kept], np.int64)
    return inputs, streams


def told(found: Implied | None) -> object:
    if found is None:
        return None
    return found.groups, {label: index.tolist() for label, index in found.index.items()}


def slowly(job: Drawn, monkeypatch: pytest.MonkeyPatch) -> Implied | None:
    """Infer by the definitions in Python."""
    with monkeypatch.context() as patch:
        for module in (implied_groups, stream_clocks, stream_evidence):
            patch.setattr(module, "has_near_ends", lambda: False)
        return implied_groups.implied_groups(*job)


@pytest.mark.skipif(not has_near_ends(), reason="the compiled module is not built")
def test_groups_are_those_of_the_slow_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = 0
    for seed in range(30):
        job = drawn(seed)
        found = implied_groups.implied_groups(*job)
        assert told(found) == told(slowly(job, monkeypatch)), f"seed {seed}"
        groups += 0 if found is None else len(found.groups)

    assert groups > 20  # jobs in which nothing is found compare nothing


def many_streams(seed: int, ranks: int = 24) -> Drawn:
    """Calls of two communicators, eight ranks a host; files lack some, and some end far.

    The calls of one communicator are close together in some jobs and few and far between in
    others: then all that ends between two of them is much.
    """
    rng = np.random.default_rng(seed)
    often, seldom = int(rng.integers(40, 400)), int(rng.choice([6, 30]))
    inputs, streams = [], {}
    ends = np.cumsum(rng.uniform(150, 900, often))
    rare = np.sort(rng.choice(ends, seldom, replace=False)) + 70
    for rank in range(ranks):
        own = np.concatenate([ends, rare]) + rng.exponential(rng.choice([1, 9, 60]), often + seldom)
        own += np.where(rng.random(len(own)) < 0.03, 95, 0)
        kept = np.flatnonzero(rng.random(len(own)) > rng.choice([0, 0.02, 0.12]))
        kept = kept[np.argsort(own[kept])]
        calls = [
            Call(end - float(rng.uniform(10, 60)), end, group=-1) for end in own[kept].tolist()
        ]
        host = rank // 8
        inputs.append(member(rank, calls, shift_us=2_000.0 * host, host=f"node{host}"))
        streams[str(rank)] = np.where(kept < often, 20, 28)
    return inputs, streams


@pytest.mark.skipif(not has_near_ends(), reason="the compiled module is not built")
def test_distances_of_streams_are_those_of_the_slow_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = 0
    for seed in range(6):
        inputs, streams = many_streams(seed)
        queues = queues_of(inputs, streams)
        clocks = stream_clocks.stream_clocks(inputs, queues)
        found = implied_groups._distances(queues, clocks)
        with monkeypatch.context() as patch:
            patch.setattr(implied_groups, "has_near_ends", lambda: False)
            slow = implied_groups._distances(queues, clocks)
        assert np.array_equal(found.table(), slow.table()), f"seed {seed}"
        pairs += len(found.ns)

    assert pairs > 250


def test_clear_differences_that_stay_are_those_found_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only differences of sets of hosts that changed are looked for again in each round."""
    forget = stream_clocks._ClearLinks.forget

    def forget_all(links: stream_clocks._ClearLinks, roots: Sequence[int]) -> None:
        forget(links, range(len(links._changed)))

    for seed in range(2):
        inputs, streams = many_streams(seed, ranks=12)
        inputs = [replace(one, host="") for one in inputs]  # each rank is a host of its own
        queues = queues_of(inputs, streams)
        found = stream_clocks.stream_clocks(inputs, queues)
        with monkeypatch.context() as patch:
            patch.setattr(stream_clocks._ClearLinks, "forget", forget_all)
            anew = stream_clocks.stream_clocks(inputs, queues)
        assert found == anew, f"seed {seed}"


@pytest.mark.skipif(not has_near_ends(), reason="the compiled module is not built")
def test_clearest_differences_are_those_of_the_slow_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    group = np.sort(rng.integers(0, 200, 900))
    near = np.array([0.0, 40e3, 90e3, 130e3, 5e6])[rng.integers(0, 5, 900)]
    shift = near + rng.uniform(0, 3, 900)
    gain = np.array([1.0, 7.0, 20.0, 80.0])[rng.integers(0, 4, 900)]
    rows = np.lexsort((shift, group))
    first = np.append(np.flatnonzero(np.diff(group, prepend=-1)), 900)

    found = stream_clocks._clear_differences(shift, gain, rows, first, stream_clocks.CLEAR)

    monkeypatch.setattr(stream_clocks, "has_near_ends", lambda: False)
    slow = stream_clocks._clear_differences(shift, gain, rows, first, stream_clocks.CLEAR)
    assert found == slow
    assert 50 < len(found) < 190


def host_of(number: int, what: I64, end_ns: I64, dur_ns: I64) -> HostCalls:
    """A host of one rank with one stream."""
    rows = np.arange(len(what))
    return HostCalls(number, (Queue(number, 7, 0, rows, what, what, end_ns, dur_ns),))


@pytest.mark.skipif(not has_near_ends(), reason="the compiled module is not built")
@pytest.mark.parametrize(("count", "others"), [(200, 170), (60, 50), (12, 12), (3, 3), (40, 8)])
@pytest.mark.parametrize("apart_ns", [90_000_000, 900_000])
def test_clock_differences_are_those_of_the_slow_definition(
    count: int, others: int, apart_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bins of long queues are wider than a window, and few of them are looked at."""
    rng = np.random.default_rng(count + apart_ns)
    end = np.cumsum(rng.integers(apart_ns // 90, apart_ns, count))
    other = end[:others] + 7_000_000 + rng.integers(0, 4_000, others)
    what, dur = rng.integers(0, 2, count), rng.integers(10_000, 900_000, count)
    one, two = host_of(0, what, end, dur), host_of(1, what[:others], other, dur[::-1][:others])

    found = stream_evidence.options_of(one, two)

    with monkeypatch.context() as patch:
        patch.setattr(stream_evidence, "has_near_ends", lambda: False)
        slow = stream_evidence.options_of(one, two)
    assert found.ahead == slow.ahead
    assert found.log_gain == pytest.approx(slow.log_gain)
    assert found.total == pytest.approx(slow.total)
    if 1.25 * others >= count > 3:
        assert found.ahead[0].offset_ns == pytest.approx(-7_002_000, abs=1_500)


@pytest.mark.skipif(not has_near_ends(), reason="the compiled module is not built")
@pytest.mark.parametrize("far", [2**40, 2**62, 2**63 - 1])
def test_times_that_are_far_apart_have_clock_differences_inside_them(far: int) -> None:
    end = np.array([-far, 0, 1000, 2000, 3000, far])
    what, dur = np.zeros(6, np.int64), np.full(6, 50_000)

    found = stream_evidence.options_of(host_of(0, what, end, dur), host_of(1, what, end, dur))

    assert all(abs(ahead.offset_ns) <= 2.0 * far for ahead in found.ahead)


OFFSET_US = 500.0


def rank(number: int, ends_us: list[float]) -> RankTrace:
    gpu = [
        allreduce(end - 50, 50, Coll("allreduce", 8, 8, group_size=2, seq=k))
        for k, end in enumerate(ends_us)
    ]
    return rank_trace(
        number, gpu=gpu, groups=[world(2)], shift_us=OFFSET_US * number, host=f"n{number}"
    )


def clocks(scatter_us: list[float]) -> View:
    common = [1_000.0 * (k + 1) for k in range(len(scatter_us))]
    late = [end + more for end, more in zip(common, scatter_us, strict=True)]
    return View(job(rank(0, common), rank(1, late)))


def test_one_end_has_no_error_bar() -> None:
    view = clocks([3.0])
    assert view.clocks.clocks["1"].residual_p95_ns is None
    assert view.clocks.error_bar_ns is None


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_bar_of_few_ends_covers_the_next_end(count: int) -> None:
    """A bar of 95 % covers the next of normally distributed ends in about 95 % of the cases."""
    draw = np.random.default_rng(count)
    covered = []
    for _ in range(100):
        scatter = draw.normal(0, 20, count + 1)
        view = clocks(scatter[:count].tolist())
        clock = view.clocks.clocks["1"]
        assert clock.residual_p95_ns is not None
        error_us = abs(clock.offset_ns / 1000 - OFFSET_US - scatter[count])
        covered.append(error_us <= 2 * clock.residual_p95_ns / 1000)
    assert np.mean(covered) > 0.85


def test_five_ends_keep_their_residual() -> None:
    view = clocks([0.0, 4.0, -4.0, 2.0, -2.0])
    clock = view.clocks.clocks["1"]
    assert clock.residual_p95_ns == 2_000  # half of the difference of two ranks
    assert view.clocks.error_bar_ns == view.clocks.residual_p95_ns


STEPS, LAYERS = 6, 8
LATER_US = 1_777.0  # by how much the second stage does what the first one did


def clocks_of(inputs: list[MatchInput], streams: dict[str, I64]) -> dict[int, RankClock]:
    return stream_clocks.stream_clocks(inputs, queues_of(inputs, streams))


def pipeline(shift_us: float) -> tuple[list[MatchInput], dict[str, I64]]:
    """Two stages of two ranks on two hosts: the second does the same, a little later.

    Its tensor-parallel calls are those of the first stage ``LATER_US`` before. Only the transfers
    between the stages, and a collective of all ranks at the end of a step, are common to both.
    """
    rng = np.random.default_rng(11)
    inputs, streams = [], {}
    rows: dict[int, list[tuple[int, Call]]] = {rank: [] for rank in range(4)}

    def call(rank: int, stream: int, start: float, end: float, kind: str = "AllReduce") -> None:
        own = end + float(rng.uniform(0, 4))
        rows[rank].append((stream, Call(start, own, kind, group=-1)))

    for step in range(STEPS):
        begin = 9_000.0 * step + float(rng.uniform(0, 700))
        layers = begin + np.cumsum(rng.uniform(150, 260, LAYERS))
        for rank in range(4):
            late = LATER_US if rank > 1 else 0.0
            for when in layers.tolist():
                call(rank, 20, when + late - 60 - float(rng.uniform(0, 3)), when + late)
        sent = float(layers[-1]) + 40
        for rank in range(2):
            call(rank, 40, sent - 20, sent, "SendRecv")
            call(rank + 2, 44, begin, sent, "SendRecv")  # posted at once, and waits
        last = float(layers[-1]) + LATER_US + 500
        for rank in range(4):
            call(rank, 32, last - (30 if rank > 1 else LATER_US + 300), last)
    for rank in range(4):
        mine = sorted(rows[rank], key=lambda row: row[1].start_us)
        shift = shift_us if rank > 1 else 0.0
        host = "ab"[rank // 2]
        inputs.append(member(rank, [one for _, one in mine], shift_us=shift, host=host))
        streams[str(rank)] = np.array([stream for stream, _ in mine], np.int64)
    return inputs, streams


def test_a_stage_that_resembles_another_does_not_give_its_clock() -> None:
    clocks = clocks_of(*pipeline(1e6))

    assert [clock.of for clock in clocks.values()] == [0, 0, 0, 0]
    assert abs(clocks[2].ahead.offset_ns / 1e3 - 1e6) < 5
    assert clocks[3] == clocks[2]


def test_ranks_of_unknown_hosts_are_linked_one_by_one() -> None:
    inputs, streams = pipeline(-3e5)
    inputs = [MatchInput(one.label, one.rank, "", one.calls) for one in inputs]

    clocks = clocks_of(inputs, streams)

    assert [clock.of for clock in clocks.values()] == [0, 0, 0, 0]
    assert abs(clocks[1].ahead.offset_ns / 1e3) < 5
    assert abs(clocks[2].ahead.offset_ns / 1e3 + 3e5) < 5
    assert abs(clocks[3].ahead.offset_ns / 1e3 + 3e5) < 5


def test_hosts_that_all_wait_for_a_late_one_are_linked_to_its_clock() -> None:
    # ranks of the last host do everything 3.1 ms later, until all meet at the end of a step
    rng = np.random.default_rng(5)
    inputs, streams = [], {}
    begin = 9_000.0 * np.arange(STEPS)[:, np.newaxis]
    layers = begin + np.cumsum(rng.uniform(150, 260, (STEPS, LAYERS)), axis=1)
    for rank in range(10):
        late = 3_114.0 if rank >= 8 else 0.0
        rows = []
        for step in range(STEPS):
            for when in layers[step].tolist():
                end = when + late + float(rng.uniform(0, 4))
                rows.append((20, Call(when + late - 60 - float(rng.uniform(0, 3)), end)))
            for nth in (1, 2):
                start = float(layers[step, -1]) + late + 90 * nth + float(rng.uniform(0, 3))
                end = float(layers[step, -1]) + 3_114 + 90 * nth + 60 + float(rng.uniform(0, 4))
                rows.append((31 + nth, Call(start, end)))
        shift = 2e5 * (rank // 2)
        calls = [replace(call, group=-1) for _, call in rows]
        inputs.append(member(rank, calls, shift_us=shift, host="abcde"[rank // 2]))
        order = np.argsort([call.start_us for call in calls], kind="stable")
        streams[str(rank)] = np.array([stream for stream, _ in rows], np.int64)[order]

    clocks = clocks_of(inputs, streams)

    for rank in range(10):
        assert clocks[rank].of == 0
        assert abs(clocks[rank].ahead.offset_ns / 1e3 - 2e5 * (rank // 2)) < 5


def observed(groups: list[I64], seed: int) -> list[Observation]:
    rng = np.random.default_rng(seed)
    return [
        Observation(one, rng.normal(size=len(one)) * 1e6, float(rng.uniform(0.5, 30)))
        for one in groups
    ]


def grid(count: int, tp: int) -> list[I64]:
    """Groups of neighbours and of those of one place in them; the second half is not linked."""
    rows = np.arange(count).reshape(2, -1, tp)
    across = [half[:, column] for half in rows for column in range(tp)]
    return [*(row for half in rows for row in half), *across]


def at_random(count: int, seed: int) -> list[I64]:
    """Groups of any sizes, one of a single rank; some ranks are in none."""
    rng = np.random.default_rng(seed)
    sizes = [1, *rng.integers(2, 40, count // 8).tolist()]
    return [np.sort(rng.choice(count - 9, size, replace=False)).astype(np.int64) for size in sizes]


@pytest.mark.parametrize(
    "groups",
    [[np.arange(64)], grid(128, 8), at_random(96, 1), at_random(96, 2)],
    ids=["world", "two grids", "random", "random too"],
)
def test_both_equations_have_one_solution(
    groups: list[I64], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1 + max(int(one.max()) for one in groups)
    seen = observed(groups, 7)
    assert 2 * len(seen) <= count
    monkeypatch.setattr(clock_estimate, "LARGE", count + 1)
    by_ranks = solve(seen, count), standard_errors(seen, count)
    monkeypatch.setattr(clock_estimate, "LARGE", count)
    by_groups = solve(seen, count), standard_errors(seen, count)

    assert np.abs(by_groups[0] - by_ranks[0]).max() < 1e-3  # ns
    assert by_groups[1] == pytest.approx(by_ranks[1], rel=1e-9, abs=1e-12)
    assert (by_groups[0] != 0).any()


def test_ranks_without_a_group_have_the_value_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_estimate, "LARGE", 1)
    seen = observed([np.array([2])], 1)

    assert solve(seen, 4).tolist() == standard_errors(seen, 4).tolist() == [0.0] * 4


def test_many_ranks_need_no_matrix_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a matrix of all ranks")

    monkeypatch.setattr(clock_estimate, "_normal_equations", refuse)
    count = 16_384
    groups = [np.arange(count), *np.arange(count).reshape(-1, 512)]
    truth = np.random.default_rng(3).normal(size=count) * 1e6
    seen = [Observation(one, truth[one] - truth[one].mean(), 1.0) for one in groups]

    assert solve(seen, count) == pytest.approx(truth - truth[0], abs=1e-3)
