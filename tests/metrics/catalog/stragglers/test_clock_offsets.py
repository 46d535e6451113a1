"""clock_offsets: the clocks as collectives tell them."""

from __future__ import annotations

from typing import Any

import pytest
from factories import Coll, allreduce, job, rank_trace, world

from ccltui.metrics.catalog.stragglers.clock_offsets import clock_offsets
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace

STARTS_US = tuple(1000.0 * n + 37 * (n % 5) for n in range(20))


def rank(number: int, shift_us: float = 0, **more: Any) -> RankTrace:
    """A rank whose clock is ahead by ``shift_us``; collectives end at once, or within 4 µs."""
    gpu = [
        allreduce(
            start, 200 + (number * (1 if nth % 2 else -1)), Coll("allreduce", 64, 64, seq=nth)
        )
        for nth, start in enumerate(STARTS_US)
    ]
    given = {"groups": [world(4)], "world_size": 4, **more}
    return rank_trace(number, gpu=gpu, shift_us=shift_us, **given)


def measured(*ranks: RankTrace, **options: Any) -> Result:
    return clock_offsets.run(View(job(*ranks), ViewOptions(**options)))


def test_the_offset_of_a_host_and_its_error_bar() -> None:
    result = measured(
        rank(0, host="a"), rank(1, host="a"), rank(2, 2500, host="b"), rank(3, 2500, host="b")
    )

    details = result.details
    assert (result.status, result.unit) == ("ok", "us")
    assert result.value == pytest.approx(2500, abs=1)
    assert details["per_rank"]["2"]["offset_us"] == pytest.approx(2500, abs=1)
    assert details["per_rank"]["2"]["n"] == 20
    assert details["per_rank"]["1"]["offset_us"] == pytest.approx(0, abs=1)
    assert 0 < details["residual_p95_us"] <= 4
    assert details["per_host"]["b"]["ranks"] == 2
    assert details["per_host"]["b"]["offset_us"] == pytest.approx(2500, abs=1)
    assert details["per_host"]["b"]["spread_us"] == 0.0
    assert details["components"] == [0]
    assert details["evidence"] == "dependent collectives"
    assert details["end_spread_us"]["max"] <= 8


def test_raw_clocks_are_told_and_not_applied() -> None:
    result = measured(rank(0, host="a"), rank(1, 2500, host="b"), raw_clocks=True)

    assert result.value == pytest.approx(2500, abs=2)
    assert any("as recorded" in warning for warning in result.warnings)


def test_ranks_that_share_no_collective_stay_apart() -> None:
    pairs = [ProcessGroup("1", "pair", (0, 1), 2), ProcessGroup("1", "pair", (2, 3), 2)]
    result = measured(
        *(
            rank(n, host=f"h{n}", shift_us=1000 * n, groups=[pairs[n // 2]], world_size=4)
            for n in range(4)
        )
    )

    assert (result.status, result.reason) == ("partial", "clock_unknown")
    assert result.details["components"] == [0, 2]
    assert result.value == pytest.approx(1000, abs=4)


def test_without_a_collective_that_links_them_there_is_no_offset() -> None:
    kernels = [
        rank_trace(n, gpu=[], groups=[world(2)], world_size=2, host=f"h{n}") for n in range(2)
    ]

    assert measured(*kernels).status == "unavailable"
