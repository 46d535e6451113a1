"""Jobs that grow by one rank at a time."""

from __future__ import annotations

import random

import pytest
from factories import kernel, rank_trace
from msgspec.structs import replace

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.job import ordered_ranks, with_new_rank


def drawn(draw: random.Random) -> RankTrace:
    rank = draw.choice([None, *range(12)])
    trace = rank_trace(
        rank,
        gpu=[kernel("k", draw.uniform(0, 9), 1)],
        base_ns=draw.choice([0, 0, 5, 7]),
        truncated=draw.random() < 0.1,
        label=f"file{draw.randrange(99)}",
    )
    if rank is not None:
        return trace
    guessed = draw.random() < 0.5
    return replace(trace, rank_source="order of devices" if guessed else "none")


@pytest.mark.parametrize("seed", range(200))
def test_a_rank_that_changes_no_other_is_inserted_as_all_are_ordered(seed: int) -> None:
    draw = random.Random(seed)
    ranks: tuple[RankTrace, ...] = ()
    inserted = 0
    for _ in range(draw.randrange(2, 10)):
        new = drawn(draw)
        expected = ordered_ranks((*ranks, new))
        found = with_new_rank(ranks, new)
        if found is not None:
            inserted += 1
            assert [t.label for t in found] == [t.label for t in expected]
            assert [t.rank for t in found] == [t.rank for t in expected]
            assert [t.base_ns for t in found] == [t.base_ns for t in expected]
            assert [t.first_ns for t in found] == [t.first_ns for t in expected]
        ranks = expected
    assert inserted <= len(ranks)


def test_ranks_in_order_are_inserted() -> None:
    ranks = ordered_ranks((rank_trace(0, gpu=[kernel("k", 0, 1)]),))
    for number in (2, 1, 3):
        found = with_new_rank(ranks, rank_trace(number, gpu=[kernel("k", 0, 1)], label="x"))
        assert found is not None
        ranks = found
    assert [trace.label for trace in ranks] == ["0", "1", "2", "3"]
