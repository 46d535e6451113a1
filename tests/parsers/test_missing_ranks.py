"""Test the ranks of a world that are missing: equal to a list of them, whatever the world."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.window import MissingRanks


@given(st.integers(0, 40), st.frozensets(st.integers(-3, 50) | st.none()), st.data())
def test_they_are_the_ranks_that_are_not_present(
    world: int, present: frozenset[int | None], data: st.DataObject
) -> None:
    expected = tuple(rank for rank in range(world) if rank not in present)

    missing = MissingRanks(world, present)

    assert (len(missing), list(missing)) == (len(expected), list(expected))
    assert missing == expected
    cut = data.draw(st.slices(max(len(expected), 1)))
    assert missing[cut] == expected[cut]
    if expected:
        at = data.draw(st.integers(-len(expected), len(expected) - 1))
        assert missing[at] == expected[at]


def test_a_world_of_any_size_takes_no_memory() -> None:
    missing = MissingRanks(1 << 60, {5, None})

    assert (len(missing), missing[:6], missing[-1]) == (
        (1 << 60) - 1,
        (0, 1, 2, 3, 4, 6),
        (1 << 60) - 1,
    )
    assert sys.getsizeof(missing) < 1000
