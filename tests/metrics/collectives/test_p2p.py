"""Sends and receives paired by ranks and order."""

from __future__ import annotations

from calls_by_hand import Call, group, member
from msgspec.structs import replace

from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.collectives.matching.p2p import Pairs, match_p2p


def send(start: float, dst: int, elems: int = -1, group: int = 0) -> Call:
    return Call(start, start + 5, "Send", dst=dst, elems=elems, group=group)


def recv(start: float, src: int, elems: int = -1, group: int = 0) -> Call:
    return Call(start, start + 6, "Recv", src=src, out_elems=elems, group=group)


def table(pairs: Pairs) -> list[tuple[int, int, int, int]]:
    columns = (pairs.sender, pairs.send_row, pairs.receiver, pairs.recv_row)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_pipeline_pairs_every_transfer_with_its_peer_in_order() -> None:
    inputs = [
        member(0, [send(0, dst=1), send(50, dst=1), recv(120, src=1)]),
        member(1, [recv(0, src=0), send(20, dst=2), recv(50, src=0), send(120, dst=0)]),
        member(2, [recv(20, src=1)]),
    ]

    assert table(match_p2p(inputs)) == [(0, 0, 1, 0), (0, 1, 1, 2), (1, 1, 2, 0), (1, 3, 0, 2)]


def test_a_window_that_opens_late_does_not_shift_the_pairs() -> None:
    sent = [send(start, dst=1) for start in (0, 70, 90, 200)]
    received = [recv(start, src=0) for start in (70, 90, 200)]

    pairs = match_p2p([member(0, sent), member(1, received)])

    assert table(pairs) == [(0, 1, 1, 0), (0, 2, 1, 1), (0, 3, 1, 2)]


def test_sizes_determine_which_transfer_is_missing() -> None:
    sent = [send(start, dst=1, elems=size) for start, size in ((0, 4), (50, 8))]
    received = [recv(start, src=0, elems=size) for start, size in ((0, 4), (50, 8), (100, 16))]

    assert table(match_p2p([member(0, sent), member(1, received)])) == [(0, 0, 1, 0), (0, 1, 1, 1)]


def test_steps_are_paired_apart() -> None:
    # regular times: without the steps, the lost last receive would look like a lost first one
    sent = [replace(send(start, dst=1), step=start // 100) for start in (0, 50, 100, 150)]
    received = [replace(recv(start, src=0), step=start // 100) for start in (0, 50, 100)]

    pairs = match_p2p([member(0, sent), member(1, received)])

    assert table(pairs)[:2] == [(0, 0, 1, 0), (0, 1, 1, 1)]
    assert len(pairs) == 3


def test_in_a_group_of_two_the_peer_is_the_other_rank() -> None:
    groups = (group(3, 7), group(3, 7, 9))
    inputs = [
        member(3, [send(0, dst=-1, group=0), send(9, dst=-1, group=1)]),
        member(7, [recv(0, src=-1, group=0), recv(9, src=-1, group=1)]),
    ]

    assert table(match_p2p(inputs, groups)) == [(0, 0, 1, 0)]
    assert len(match_p2p(inputs)) == 0


def test_peers_without_a_file_and_unknown_ranks_pair_with_nothing() -> None:
    inputs = [member(0, [send(0, dst=1)]), member(None, [recv(0, src=0)], label="odd.json")]

    assert len(match_p2p(inputs)) == 0


def test_indices_count_into_the_inputs_as_given() -> None:
    inputs: list[MatchInput] = [member(5, [recv(0, src=2)]), member(2, [send(0, dst=5)])]

    assert table(match_p2p(inputs)) == [(1, 0, 0, 0)]
