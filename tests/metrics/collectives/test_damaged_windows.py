"""Files that begin late, end early, lack records or names: no rank is left out of the match."""

from __future__ import annotations

import numpy as np
import pytest
from calls_by_hand import Call, group, member
from msgspec.structs import replace

from ccltui.metrics.collectives.implied.implied_groups import implied_groups, with_groups_of_others
from ccltui.metrics.collectives.matching.match import MEDIUM, MatchInput, match_calls
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

STEPS, IN_STEP = 4, 12


def ends_us(seed: int = 3) -> np.ndarray:
    """Ends of the collectives of one communicator, in µs, at irregular distances."""
    return np.cumsum(np.random.default_rng(seed).uniform(400, 900, STEPS * IN_STEP))


def recorded(rank: int, *, keep: slice | np.ndarray, unmarked_from: int = STEPS) -> MatchInput:
    """One rank of a job in which rank 2 joins each collective 150 us after the others.

    ``keep`` are the calls in its file; steps from ``unmarked_from`` on have no marker there.
    """
    rng = np.random.default_rng(rank)
    rows = []
    for number, end in enumerate(ends_us().tolist()):
        step = number // IN_STEP
        start = end - (50 if rank == 2 else 200) + float(rng.uniform(0, 2))
        marked = step if step < unmarked_from else MISSING
        rows.append(
            Call(start, end + float(rng.uniform(0, 2)), elems=64, out_elems=64, step=marked)
        )
    return member(rank, list(np.array(rows, object)[keep]))


ALL = slice(None)


@pytest.mark.parametrize(
    ("keep", "unmarked_from", "left"),
    [
        (slice(17, None), STEPS, STEPS * IN_STEP - 17),  # begins late, inside a step
        (slice(0, 41), 3, 41),  # ends early, in a step whose marker is not written
        (np.delete(np.arange(STEPS * IN_STEP), [5, 6, 21, 30]), STEPS, STEPS * IN_STEP - 4),
    ],
    ids=["late", "early", "dropped"],
)
def test_every_call_that_is_there_is_matched(
    keep: slice | np.ndarray, unmarked_from: int, left: int
) -> None:
    inputs = [recorded(rank, keep=ALL) for rank in (0, 1, 3)]
    inputs.append(recorded(2, keep=keep, unmarked_from=unmarked_from))

    (match,) = match_calls(inputs, [group(0, 1, 2, 3)]).groups

    assert match.labels == ("0", "1", "2", "3")
    assert int(match.usable.sum()) == left
    assert (match.confidence[match.usable] == MEDIUM).all()
    ends = [
        item.calls.end_ns[match.rows[match.usable, column]]
        for column, item in enumerate(sorted(inputs, key=lambda item: item.label))
    ]
    assert np.ptp(np.stack(ends), axis=0).max() <= 2_000  # each is the same collective


def two_groups(
    drop: dict[int, float], cut: dict[int, int]
) -> tuple[list[MatchInput], dict[str, I64]]:
    """Pairs on stream 20 and all four ranks on stream 24, without any name of a group.

    ``drop`` is the share of records that a rank lacks, ``cut`` the step in which its file ends.
    """
    rng = np.random.default_rng(11)
    rows: dict[int, list[tuple[Call, int]]] = {rank: [] for rank in range(4)}
    of_stream = {20: ((0, 1), (2, 3)), 24: ((0, 1, 2, 3),)}
    for stream, groups in of_stream.items():
        for number, ranks in enumerate(groups):
            for place, end in enumerate(ends_us(stream + number).tolist()):
                for rank in ranks:
                    step = place // IN_STEP
                    if rank in cut and (step > cut[rank] or (step == cut[rank] and place % 3 == 2)):
                        continue
                    marked = MISSING if step == cut.get(rank, STEPS) else step
                    close = end + float(rng.uniform(0, 3))
                    if rng.random() >= drop.get(rank, 0.0):
                        call = Call(end - 60, close, group=MISSING, step=marked)
                        rows[rank].append((call, stream))
    inputs, streams = [], {}
    for rank, mine in rows.items():
        mine.sort(key=lambda row: row[0].start_us)
        inputs.append(member(rank, [call for call, _ in mine], host="a"))
        streams[str(rank)] = np.array([stream for _, stream in mine], np.int64)
    return inputs, streams


@pytest.mark.parametrize(
    ("drop", "cut"),
    [
        ({}, {}),
        ({3: 0.12}, {}),
        (dict.fromkeys(range(4), 0.05), {}),
        ({}, {3: 2}),
        ({1: 0.1}, {3: 1}),
    ],
    ids=["whole", "one rank lacks records", "all do", "one ends early", "both"],
)
def test_records_that_a_file_lacks_leave_no_rank_out_of_its_group(
    drop: dict[int, float], cut: dict[int, int]
) -> None:
    found = implied_groups(*two_groups(drop, cut))

    assert found is not None
    assert {(one.stream, one.ranks) for one in found.groups} == {
        (20, (0, 1)),
        (20, (2, 3)),
        (24, (0, 1, 2, 3)),
    }


GROUPS = [group(0, 1), group(2, 3), group(0, 1, 2, 3)]


def all_named_but_one(
    kind: int | None = None, kernel: int | None = None
) -> tuple[list[MatchInput], I64]:
    """Calls of four ranks, of which rank 2 names neither groups nor sizes, and its streams.

    ``kind`` is the type of the calls, ``kernel`` that which the name of a kernel states.
    """
    of_stream = {(20, 0): 0, (20, 1): 0, (20, 2): 1, (20, 3): 1}
    inputs, streams = two_groups({2: 0.1}, {})
    named = []
    for item in inputs:
        own = np.array(
            [of_stream.get((int(one), item.rank or 0), 2) for one in streams[item.label]], np.int32
        )
        sizes = np.where(own == 2, 4096, 64).astype(np.int64)
        calls = replace(item.calls, group=own, in_elems=sizes, out_elems=sizes)
        if item.label == "2":
            none = np.full(len(sizes), MISSING, np.int64)
            calls = replace(item.calls, in_elems=none, out_elems=none)
        if kind is not None:
            one = kernel if item.label == "2" else kind
            calls = replace(calls, kind=np.full(len(sizes), one, np.int8))
        named.append(replace(item, calls=calls))
    return named, streams["2"]


def test_a_rank_that_names_no_group_is_placed_in_those_of_the_others() -> None:
    named, stream = all_named_but_one()

    placed = with_groups_of_others(named, {"2": stream}, GROUPS)

    assert [placed[index] is named[index] for index in (0, 1, 3)] == [True] * 3
    calls = placed[2].calls
    assert calls.group.tolist() == [1 if one == 20 else 2 for one in stream.tolist()]
    assert set(calls.in_elems[calls.group == 2].tolist()) == {4096}
    assert (calls.seq == MISSING).all()  # it is known by order alone, and no surer than that
    matches = {one.group: one for one in match_calls(placed, GROUPS).groups}
    assert matches[2].labels == ("0", "1", "2", "3")
    assert int(matches[2].usable.sum()) == int((stream == 24).sum())
    assert int(matches[1].usable.sum()) == int((stream == 20).sum())


def test_sizes_of_an_exchange_are_not_those_of_another_rank() -> None:
    named, stream = all_named_but_one(TYPES.index("AllToAll"), TYPES.index("SendRecv"))

    calls = with_groups_of_others(named, {"2": stream}, GROUPS)[2].calls

    assert (calls.kind[calls.group >= 0] == TYPES.index("AllToAll")).all()
    assert (calls.group >= 0).any()
    assert set(calls.in_elems.tolist()) == set(calls.out_elems.tolist()) == {MISSING}


def test_a_stream_that_fits_no_group_stays_without_one() -> None:
    inputs, streams = two_groups({}, {})
    groups = [group(0, 1)]
    other = replace(
        inputs[0], calls=replace(inputs[0].calls, group=np.zeros(len(streams["0"]), np.int32))
    )
    shifted = replace(
        inputs[1], calls=replace(inputs[1].calls, kind=np.full(len(streams["1"]), 7, np.int8))
    )

    (_, found) = with_groups_of_others([other, shifted], {"1": streams["1"]}, groups)

    assert (found.calls.group == MISSING).all()
