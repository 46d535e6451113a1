"""Matching across ranks: levels of evidence, confidence, and ranks that are skipped."""

from __future__ import annotations

import numpy as np
import pytest
from calls_by_hand import Call, group, member
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.collectives.matching import lineup
from ccltui.metrics.collectives.matching.match import (
    HIGH,
    LOW,
    MEDIUM,
    GroupMatch,
    Matches,
    disagreements,
    gather,
    match_calls,
)
from ccltui.metrics.collectives.matching.validity import add_edges

WORLD2 = (group(0, 1),)
PAUSES_US = (70, 130, 90, 310, 50, 170, 20, 230)


def train(
    count: int, *, late_us: float = 0, first: int = 0, sequence: bool = False, **same: object
) -> list[Call]:
    """Allreduces that end at irregular times, all 40 µs long but for a late start."""
    rows = []
    end = 0.0
    for index in range(count):
        end += PAUSES_US[index % len(PAUSES_US)] + 100
        row = Call(end - 40 + late_us, end, seq=index if sequence else -1, **same)  # type: ignore[arg-type]
        rows.append(row)
    return rows[first:]


def only(matches: Matches) -> GroupMatch:
    assert len(matches.groups) == 1
    return matches.groups[0]


def two(left: list[Call], right: list[Call]) -> GroupMatch:
    return only(match_calls([member(0, left), member(1, right)], WORLD2))


def test_worked_example_of_a_missing_first_collective_is_aligned_from_the_end() -> None:
    match = two(train(4), train(4, late_us=9, first=1))

    assert match.rows.tolist() == [[0, -1], [1, 0], [2, 1], [3, 2]]
    assert (match.num_incomplete, match.num_mismatched) == (1, 0)
    assert match.level.tolist() == [4, 4, 4, 4]
    assert match.overlap.tolist() == [-1, 1, 1, 1]
    assert match.confidence.tolist() == [LOW, MEDIUM, MEDIUM, MEDIUM]


def test_order_that_fails_the_overlap_test_keeps_low_confidence() -> None:
    left = [Call(0, 10), Call(100, 110), Call(200, 210), Call(500, 510)]
    right = [Call(20, 30), Call(150, 160), Call(205, 208), Call(900, 910)]

    match = two(left, right)

    assert match.overlap.tolist() == [0, 0, 1, 0]
    assert match.confidence.tolist() == [LOW] * 4


def test_a_communicator_and_sequence_number_give_level_one_and_high_confidence() -> None:
    left = train(5, sequence=True, comms_id=2**64 - 3, elems=8, out_elems=8, dtype="Float")

    match = two(left, left[2:])

    assert match.rows.tolist() == [[0, -1], [1, -1], [2, 0], [3, 1], [4, 2]]
    assert match.level.tolist() == [1] * 5
    assert match.confidence.tolist() == [LOW, LOW, HIGH, HIGH, HIGH]


def test_a_sequence_number_gives_level_two_and_without_sizes_medium_confidence() -> None:
    match = two(train(3, sequence=True), train(3, sequence=True, first=1))

    assert match.level.tolist() == [2] * 3
    assert match.confidence.tolist() == [LOW, MEDIUM, MEDIUM]


@pytest.mark.parametrize("comms_id", [0, 7])
@pytest.mark.parametrize("before", [0, 3])
def test_the_same_sequence_on_all_ranks_is_matched_like_any_other(
    monkeypatch: pytest.MonkeyPatch, comms_id: int, before: int
) -> None:
    late_us = (0, 9, 4)
    calls = [
        [
            *(Call(10 * i, 10 * i + 5, group=-1) for i in range(before)),
            *train(70, late_us=late, sequence=True, comms_id=comms_id, elems=8, dtype="Float"),
        ]
        for late in late_us
    ]
    inputs = [member(rank, one) for rank, one in enumerate(calls)]
    groups = (group(0, 1, 2),)
    quick = only(match_calls(inputs, groups))

    monkeypatch.setattr(lineup, "_common_sequence", lambda _: None)

    slow = only(match_calls(inputs, groups))
    assert quick.level.tolist() == [1 if comms_id else 2] * 70
    for name in GroupMatch.__struct_fields__:
        found, expected = getattr(quick, name), getattr(slow, name)
        assert np.asarray(found).tolist() == np.asarray(expected).tolist(), name


def test_ranks_share_the_columns_that_are_equal() -> None:
    first = member(0, train(5, sequence=True, elems=8)).calls
    second = member(1, train(5, late_us=9, sequence=True, elems=8)).calls
    third = member(2, train(6, sequence=True, first=1, elems=8)).calls

    shared, others = second.sharing(first), third.sharing(first)

    assert shared.seq is first.seq
    assert shared.rows.numbers is first.rows.numbers
    assert shared.start_ns is second.start_ns
    assert others.seq is third.seq
    assert others.step is first.step
    assert first.sharing(None) is first
    assert member(0, train(4)).calls.sharing(first).seq.tolist() == [-1] * 4


def test_communicator_ids_that_differ_by_rank_are_no_key() -> None:
    left = train(3, sequence=True, comms_id=5)
    right = train(3, sequence=True, comms_id=6)

    assert two(left, right).level.tolist() == [2, 2, 2]


def test_two_communicators_of_one_group_count_their_own_sequences() -> None:
    first = [Call(0, 10, seq=0, comms_id=5), Call(40, 50, seq=1, comms_id=5)]
    second = [Call(20, 30, seq=0, comms_id=9), Call(60, 70, seq=1, comms_id=9)]

    match = two([*first, *second], [first[1], *second])

    assert match.rows.tolist() == [[0, -1], [1, 0], [2, 1], [3, 2]]


def test_one_collective_on_two_kernels_is_one() -> None:
    rows = [Call(0, 10, seq=4), Call(12, 20, seq=4), Call(40, 50, seq=5)]

    match = two(rows, rows)

    assert match.rows.tolist() == [[0, 0], [2, 2]]
    assert match.until is not None
    assert match.until.tolist() == [[1, 1], [2, 2]]


def test_a_collective_on_one_kernel_here_and_two_there() -> None:
    left = [Call(0, 20, seq=4), Call(40, 50, seq=5)]
    right = [Call(5, 10, seq=4), Call(12, 21, seq=4), Call(41, 50, seq=5)]
    inputs = [member(0, left), member(1, right)]

    (match,) = match_calls(inputs, [group(0, 1)]).groups

    assert match.rows.tolist() == [[0, 0], [1, 2]]
    durations = gather(match, {item.label: item for item in inputs}, "dur_ns")
    assert durations.tolist() == [[20_000, 16_000], [10_000, 9_000]]
    assert match.num_incomplete == 0


def test_two_calls_in_a_row_of_one_number_but_not_of_one_size_are_two() -> None:
    rows = [Call(0, 10, seq=4, elems=8), Call(12, 20, seq=4, elems=9)]

    assert two(rows, rows).rows.tolist() == [[0, 0], [1, 1]]


def test_calls_that_another_rank_issued_as_one_are_one() -> None:
    # rank 0 groups three all-reduces into one kernel of 60 elements, rank 1 does not
    left = [
        Call(0, 40, elems=60, out_elems=60, seq=4),
        Call(60, 70, elems=5, out_elems=5, seq=7),
    ]
    right = [
        *(Call(5 + t, 15 + t, elems=20, out_elems=20, seq=4 + t // 12) for t in (0, 12, 24)),
        Call(61, 70, elems=5, out_elems=5, seq=7),
    ]

    match = two(left, right)

    assert match.rows.tolist() == [[0, 0], [1, 3]]
    assert match.until is not None
    assert match.until.tolist() == [[0, 2], [1, 3]]
    assert match.agrees.tolist() == [True, True]
    assert (match.num_incomplete, match.num_mismatched) == (0, 0)


def test_sizes_that_do_not_add_up_are_a_mismatch_and_calls_that_are_missing() -> None:
    same = [Call(t, t + 10, elems=8, out_elems=8, seq=t // 20) for t in (0, 20, 40, 60)]
    left = [*same, Call(100, 140, elems=50, out_elems=50, seq=4)]
    right = [
        *same,
        Call(105, 115, elems=20, out_elems=20, seq=4),
        Call(117, 127, elems=20, out_elems=20, seq=5),
    ]

    match = two(left, right)

    assert match.num_mismatched == 1
    assert match.num_incomplete == 1


def test_sequence_numbers_that_pair_unlike_calls_are_no_key() -> None:
    left = [Call(t, t + 10, elems=t, out_elems=t, seq=t // 100) for t in (0, 100, 270, 330)]
    right = [Call(t, t + 10, elems=t, out_elems=t, seq=7 + t // 100) for t in (0, 100, 270, 330)]

    assert two(left, right).level.tolist() == [4] * 4


def test_equal_counts_in_a_step_give_level_three_and_uneven_steps_are_realigned() -> None:
    left = [Call(t, t + 10, step=t // 100) for t in (100, 130, 190, 200, 220, 250)]
    right = [Call(t, t + 10, step=t // 100) for t in (133, 193, 203, 223, 253)]

    match = two(left, right)

    assert match.rows.tolist() == [[0, -1], [1, 0], [2, 1], [3, 2], [4, 3], [5, 4]]
    assert match.level.tolist() == [4, 4, 4, 3, 3, 3]
    assert match.step.tolist() == [1, 1, 1, 2, 2, 2]


def test_a_step_cut_short_is_fitted_by_the_clocks_of_the_others() -> None:
    left = [Call(t, t + 10, step=t // 100) for t in (100, 130, 200, 230)]

    match = only(match_calls([member(0, left), member(1, left[:3], shift_us=7000)], WORLD2))

    assert match.rows.tolist() == [[0, 0], [1, 1], [2, 2], [3, -1]]


def test_calls_between_steps_are_lined_up_among_themselves() -> None:
    left = [Call(10, 20, step=1), Call(30, 40), Call(50, 60), Call(70, 80, step=2)]
    right = [Call(10, 20, step=1), Call(50, 60), Call(70, 80, step=2)]

    match = two(left, right)

    assert match.rows.tolist() == [[0, 0], [1, -1], [2, 1], [3, 2]]
    assert match.level.tolist() == [3, 4, 4, 3]


def test_a_step_in_one_rank_only_is_incomplete() -> None:
    left = [Call(10, 20, step=1), Call(110, 120, step=2)]

    match = two(left, left[1:])

    assert match.rows.tolist() == [[0, -1], [1, 0]]
    assert match.num_incomplete == 1


def test_members_that_disagree_on_size_are_mismatched_and_named() -> None:
    left = [Call(0, 10, elems=4, step=1), Call(20, 30, elems=8, step=1)]
    right = [Call(0, 10, elems=4, step=1), Call(20, 30, elems=9, step=1)]
    matches = match_calls([member(0, left), member(1, right)], WORLD2)

    match = only(matches)

    assert (match.num_incomplete, match.num_mismatched) == (0, 1)
    assert match.usable.tolist() == [True, False]
    assert disagreements(matches, WORLD2) == (
        "collective 1 of group 0,1 (AllReduce) differs in type, dtype or size between its ranks",
    )


def test_an_absent_member_is_named() -> None:
    matches = match_calls([member(0, train(2)), member(1, train(2, first=1))], WORLD2)

    assert disagreements(matches, WORLD2) == (
        "collective 0 of group 0,1 (AllReduce) is missing on rank 1",
    )
    assert disagreements(matches, WORLD2, limit=0) == ()


@pytest.mark.parametrize(
    ("left", "right", "agrees"),
    [
        (Call(0, 9, "AllToAll", elems=4), Call(0, 9, "AllToAll", elems=5), True),  # splits differ
        (Call(0, 9, "AllGather", out_elems=4), Call(0, 9, "AllGather", out_elems=5), False),
        (Call(0, 9, "Broadcast", elems=4), Call(0, 9, "AllReduce", elems=4), False),
        (Call(0, 9, dtype="Float"), Call(0, 9, dtype="Half"), False),
        (Call(0, 9, dtype="Float"), Call(0, 9), True),  # one rank does not tell
    ],
)
def test_agreement(left: Call, right: Call, agrees: bool) -> None:
    assert two([left], [right]).agrees.tolist() == [agrees]


def test_an_all_to_all_by_order_is_trusted_when_it_overlaps() -> None:
    rows = [Call(t, t + 10, "SendRecv") for t in (0, 70, 210)]

    assert two(rows, rows).confidence.tolist() == [MEDIUM] * 3


def test_a_broadcast_is_trusted_like_the_dependent_calls_around_it() -> None:
    rows = [Call(0, 10), Call(20, 30, "Broadcast"), Call(40, 50)]
    early_root = [Call(0, 10), Call(31, 33, "Broadcast"), Call(40, 50)]

    match = two(rows, early_root)

    assert match.overlap.tolist() == [1, 0, 1]
    assert match.confidence.tolist() == [MEDIUM] * 3


def test_groups_are_matched_apart_and_absent_ranks_named() -> None:
    groups = (group(0, 1), group(0, 2), group(1, 3))
    inputs = [
        member(0, [Call(0, 10, group=0), Call(20, 30, group=1)]),
        member(1, [Call(0, 10, group=0), Call(50, 60, group=2)]),
        member(2, [Call(20, 30, group=1)]),
    ]

    matches = match_calls(inputs, groups)

    assert [match.group for match in matches.groups] == [0, 1]
    assert [match.labels for match in matches.groups] == [("0", "1"), ("0", "2")]
    assert matches.single_rank_groups == 1


def test_a_member_without_a_file_is_missing_but_the_others_match() -> None:
    match = only(match_calls([member(0, train(2)), member(2, train(2))], (group(0, 1, 2),)))

    assert match.labels == ("0", "2")
    assert match.missing == (1,)
    assert match.usable.all()


def test_jobs_without_groups_are_one_group_matched_type_by_type() -> None:
    kinds = ("SendRecv", "AllReduce", "SendRecv", "AllReduce")
    left = [Call(t, t + 10, kind, group=-1) for t, kind in zip((0, 20, 40, 60), kinds, strict=True)]
    right = [
        # on another stream than the SendRecv, which it overtakes
        Call(20, 30, group=-1),
        Call(31, 50, "SendRecv", group=-1),
        Call(60, 70, group=-1),
    ]

    match = only(match_calls([member(0, left), member(1, right)], ()))

    assert match.group == -1
    assert match.rows.tolist() == [[0, -1], [1, 0], [2, 1], [3, 2]]


def test_calls_without_a_group_are_counted_where_others_have_one() -> None:
    rows = [Call(0, 10), Call(20, 30, group=-1)]

    matches = match_calls([member(0, rows), member(1, rows)], WORLD2)

    assert matches.ungrouped == 2
    assert only(matches).rows.tolist() == [[0, 0]]


def test_point_to_point_is_never_a_group_collective() -> None:
    rows = [Call(0, 10, "Send", dst=1), Call(20, 30, "Recv", src=1)]

    assert match_calls([member(0, rows), member(1, rows)], WORLD2).groups == ()


def test_ranks_unknown_claimed_twice_or_of_another_source_are_skipped() -> None:
    rows = train(2)
    inputs = [
        member(0, rows),
        member(1, rows),
        member(2, rows, label="2 (a.json)"),
        member(2, rows, label="2 (b.json)"),
        member(None, rows, label="odd.json"),
        member(3, rows, source="cpu_op"),
    ]

    matches = match_calls(inputs, (group(0, 1, 2, 3),))

    assert only(matches).labels == ("0", "1")
    assert matches.skipped == {
        "2 (a.json)": "rank 2 is claimed by 2 files",
        "2 (b.json)": "rank 2 is claimed by 2 files",
        "odd.json": "its rank is unknown",
        "3": "it recorded its collectives as operators, the others as kernels",
    }


def test_no_collectives_no_match() -> None:
    assert match_calls([member(0, []), member(1, [])], WORLD2).groups == ()
    assert match_calls([], ()).groups == ()


@given(
    count=st.integers(4, 30),
    missing=st.integers(0, 3),
    level=st.sampled_from([2, 4]),
    shift_us=st.integers(-1_000_000, 1_000_000),
)
def test_removing_the_first_calls_of_a_rank_leaves_the_other_matches(
    count: int, missing: int, level: int, shift_us: int
) -> None:
    rows = train(count, sequence=level == 2)
    whole = [member(rank, rows, shift_us=rank * shift_us) for rank in range(3)]
    cut = [*whole[:2], member(2, rows[missing:], shift_us=2 * shift_us)]
    groups = (group(0, 1, 2),)

    match = only(match_calls(cut, groups))

    assert only(match_calls(whole, groups)).usable.all()
    assert match.level[match.complete].tolist() == [level] * (count - missing)
    complete = match.rows[match.complete]
    assert complete[:, 0].tolist() == list(range(missing, count))
    assert np.array_equal(complete[:, 2], complete[:, 0] - missing)


@given(
    pauses=st.lists(st.integers(2, 400), min_size=6, max_size=14, unique=True),
    offsets_us=st.lists(st.integers(-1_000_000, 1_000_000), min_size=3, max_size=3),
    late_us=st.lists(st.integers(0, 35), min_size=3, max_size=3),
    data=st.data(),
)
def test_no_wrong_match_by_order_is_above_low_confidence(
    pauses: list[int], offsets_us: list[int], late_us: list[int], data: st.DataObject
) -> None:
    """Any window on any rank, any clock: a match above low confidence is the right one."""
    ends = np.cumsum(np.array(pauses) * 50) + 50
    inputs, first = [], []
    for rank in range(3):
        begin = data.draw(st.integers(0, len(ends) - 1))
        stop = data.draw(st.integers(begin + 1, len(ends)))
        rows = [Call(float(end) - 40 + late_us[rank], float(end)) for end in ends[begin:stop]]
        inputs.append(member(rank, rows, shift_us=offsets_us[rank]))
        first.append(begin)

    match = only(match_calls(inputs, (group(0, 1, 2),)))

    believed = match.usable & (match.confidence > LOW)
    truth = match.rows[believed] + np.array(first)
    assert (truth == truth[:, :1]).all()


@given(st.permutations(range(4)))
def test_the_order_of_files_changes_nothing(order: list[int]) -> None:
    inputs = [member(rank, train(6, late_us=rank)) for rank in range(4)]
    groups = (group(0, 1, 2, 3),)

    shuffled = only(match_calls([inputs[index] for index in order], groups))

    assert shuffled.labels == ("0", "1", "2", "3")
    assert np.array_equal(shuffled.rows, only(match_calls(inputs, groups)).rows)


def exchanges(misses_us: dict[int, float], *, late: int | None = 2) -> GroupMatch:
    """16 all-to-alls of 4 ranks without metadata; one rank is late in each third of them.

    ``misses_us`` gives by how much rank 0 ends before the last start of a short one.
    """
    rows: list[list[Call]] = [[], [], [], []]
    for number in range(16):
        begin = 30_000.0 * number + 137 * (number % 5)
        for rank in range(4):
            waits = 9_000.0 if late is not None and number % 3 == 0 and rank != late else 0.0
            length = 60.0 if number in misses_us else 400.0
            end = begin + 400 + 20 * ((rank + number) % 3)
            start = end - length - waits
            if number in misses_us:
                end, start = begin + 410, begin + 400 - 10 * rank
                if rank == 0:
                    end, start = begin + 390 - misses_us[number], begin + 300
            rows[rank].append(Call(start, end, "SendRecv", group=-1))
    return only(match_calls([member(rank, row, host="a") for rank, row in enumerate(rows)], ()))


def test_short_calls_whose_ends_miss_by_the_scatter_of_ends_do_not_disprove_a_match() -> None:
    match = exchanges({4: 14.0, 7: 12.0, 10: 18.0})

    assert (match.overlap == 0).sum() == 3
    assert set(match.confidence.tolist()) == {MEDIUM}


def test_misses_beyond_the_scatter_of_ends_do() -> None:
    match = exchanges({4: 300.0, 7: 400.0, 10: 350.0}, late=None)

    assert set(match.confidence.tolist()) == {LOW}


@pytest.mark.skipif(not available(), reason="the pass was not compiled")
@given(st.lists(st.lists(st.tuples(*[st.integers(-90, 90)] * 3), min_size=4, max_size=4)))
def test_the_compiled_pass_finds_the_same_edges_of_collectives(
    members: list[list[tuple[int, int, int]]],
) -> None:
    from ccltui.metrics.arrays import _passes

    found, expected = (np.zeros((6, 4), np.int64) for _ in range(2))
    for edges in (found, expected):
        edges[[1, 4, 5]] = 1_000

    for rows in members:
        start, lasted, apart = np.array(rows, np.int64).T
        _passes.add_edges(start, lasted, apart, found)
        add_edges(start, lasted, apart, expected)

    assert found.tolist() == expected.tolist()
