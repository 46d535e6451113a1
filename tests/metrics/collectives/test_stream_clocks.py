"""Clock differences of hosts, from streams without known communicators."""

from __future__ import annotations

import numpy as np
from calls_by_hand import Call, member
from msgspec.structs import replace

from ccltui.metrics.collectives.implied.stream_clocks import RankClock, stream_clocks
from ccltui.metrics.collectives.implied.stream_evidence import queues_of
from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.parsers.array_types import I64

STEPS, LAYERS = 6, 8
LATER_US = 1_777.0  # by how much the second stage does what the first one did


def clocks_of(inputs: list[MatchInput], streams: dict[str, I64]) -> dict[int, RankClock]:
    return stream_clocks(inputs, queues_of(inputs, streams))


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
