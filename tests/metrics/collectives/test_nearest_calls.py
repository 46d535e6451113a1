"""The nearest like call of another sequence."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.collectives.matching.align_calls import CodedCalls, coded
from ccltui.parsers.array_types import I64

FAR = 1 << 61


def nearest(own: list[tuple[int, int]], other: list[tuple[int, int]], near_ns: int) -> list[int]:
    """Places found; calls are given as (token, end)."""
    columns = [np.array(part, np.int64).reshape(-1, 2) for part in (own, other)]
    (tokens, ends), (other_tokens, other_ends) = (part.T.copy() for part in columns)
    found: list[int] = (
        CodedCalls.of(tokens, other_tokens).nearest(ends, other_ends, near_ns).tolist()
    )
    return found


def test_each_call_has_the_nearest_of_its_kind() -> None:
    own = [(7, 10), (9, 20), (7, 30)]
    other = [(9, 11), (7, 12), (7, 33)]

    assert nearest(own, other, 5) == [1, -1, 2]
    assert nearest(own, other, 9) == [1, 0, 2]


def test_a_call_is_paired_with_one_other_at_most() -> None:
    assert nearest([(1, 10), (1, 12)], [(1, 13)], 100) == [-1, 0]


def test_nothing_on_either_side_pairs_with_nothing() -> None:
    assert nearest([], [(1, 5)], 9) == []
    assert nearest([(1, 5)], [], 9) == [-1]


def test_ends_as_far_apart_as_integers_allow() -> None:
    own = [(1, 0), (2, 5), (1, FAR)]

    assert nearest(own, [(1, 3), (2, 9), (1, FAR + 4)], 10) == [0, 1, 2]


def test_tokens_are_numbered_alike_in_all_sequences() -> None:
    one, two, three = (
        part.tolist()
        for part in coded([np.array([50, 10]), np.array([10, 99, 50]), np.array([], np.int64)])
    )

    assert (one, two, three) == ([1, 0], [0, 2, 1], [])


CALLS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=12)


@given(CALLS, CALLS, st.integers(0, 20))
def test_the_result_equals_that_of_all_pairs(
    own: list[tuple[int, int]], other: list[tuple[int, int]], near_ns: int
) -> None:
    own.sort(key=lambda call: call[1])
    other.sort(key=lambda call: call[1])

    found = nearest(own, other, near_ns)

    for (token, end), place in zip(own, found, strict=True):
        apart = [abs(end - their) for what, their in other if what == token]
        if place >= 0:
            assert other[place][0] == token
            assert abs(end - other[place][1]) == min(apart) <= near_ns
    held = [place for place in found if place >= 0]
    assert len(held) == len(set(held))


def test_many_tokens() -> None:
    tokens: I64 = np.arange(40_000)

    assert CodedCalls.of(tokens, tokens[::-1].copy()).code.tolist() == tokens.tolist()
