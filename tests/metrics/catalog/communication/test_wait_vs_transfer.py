"""wait_vs_transfer: how much of a collective's time is waiting, on jobs of known answer."""

from __future__ import annotations

from typing import Any

from factories import Coll, allreduce, job, rank_trace, step, world

from ccltui.metrics.catalog.communication.wait_vs_transfer import wait_vs_transfer
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace

STARTS_US = (1000, 1400, 2900, 3300)
STEPS = (step(1, 900, 900), step(2, 2800, 900))


def late_rank(rank: int, late_us: float, **more: Any) -> RankTrace:
    """One of three ranks; every collective ends 200 µs after the first rank began it."""
    gpu = [
        allreduce(start + late_us, 200 - late_us, Coll("allreduce", 64, 64, seq=seq))
        for seq, start in enumerate(STARTS_US)
    ]
    given = {"gpu": gpu, "annotations": STEPS, "groups": [world(3)], "world_size": 3, **more}
    return rank_trace(rank, **given)


def measured(*ranks: RankTrace, **options: Any) -> Result:
    return wait_vs_transfer.run(View(job(*ranks), ViewOptions(**options)))


def three() -> list[RankTrace]:
    return [late_rank(0, 0), late_rank(1, 100), late_rank(2, 150)]


def test_the_last_rank_waits_for_nobody_and_its_duration_is_the_transfer() -> None:
    result = measured(*three())

    # each collective: durations 200, 100 and 50 µs, so 150 + 50 of 350 µs are waiting
    assert (result.status, result.value, result.unit) == ("ok", 4 * 200 / (4 * 350), "ratio")
    details = result.details
    assert (details["wait_ms"], details["transfer_ms"]) == (0.8, 0.6)
    assert details["per_rank"] == {
        "0": {"wait_share": 0.75, "wait_ms": 0.6, "transfer_ms": 0.2},
        "1": {"wait_share": 0.5, "wait_ms": 0.2, "transfer_ms": 0.2},
        "2": {"wait_share": 0.0, "wait_ms": 0.0, "transfer_ms": 0.2},
    }


def test_by_group_type_and_step() -> None:
    details = measured(*three()).details

    split = {"wait_share": 4 / 7, "wait_ms": 0.8, "transfer_ms": 0.6}
    assert details["by_type"] == {"AllReduce": {"num_collectives": 4, **split}}
    assert details["by_dim"] == {"world": {"num_collectives": 4, **split}}
    (group,) = details["by_group"]
    assert (group["dim"], group["num_collectives"], group["wait_ms"]) == ("world", 4, 0.8)
    assert group["transfer_us"] == {"p50": 50.0, "p95": 50.0, "max": 50.0, "n": 4}
    assert details["per_step"] == [
        {"step": 1, "wait_share": 4 / 7, "wait_ms": 0.4, "transfer_ms": 0.3},
        {"step": 2, "wait_share": 4 / 7, "wait_ms": 0.4, "transfer_ms": 0.3},
    ]


def test_ends_on_one_clock_prove_the_matches() -> None:
    assert measured(*three()).details["end_spread_us"]["max"] == 0.0


def test_a_clock_that_is_ahead_changes_nothing() -> None:
    shifted = [late_rank(0, 0), late_rank(1, 100), late_rank(2, 150, shift_us=7000, host="b")]

    assert measured(*shifted).details["per_rank"] == measured(*three()).details["per_rank"]
    assert measured(*shifted).details["end_spread_us"]["max"] == 0.0


def test_among_chosen_ranks_only_they_wait_for_each_other() -> None:
    details = measured(*three(), ranks=frozenset({0, 1})).details

    assert details["per_rank"]["0"]["wait_ms"] == 0.4
    assert details["per_rank"]["1"]["wait_ms"] == 0.0


def test_one_rank_alone_cannot_tell() -> None:
    result = measured(late_rank(0, 0))

    assert (result.status, result.reason, result.value) == ("unavailable", "single_rank", None)
    assert result.details["wait_ms"] is None


def test_a_step_without_a_collective_is_refused() -> None:
    result = measured(*three(), steps=(9, 9))

    assert (result.status, result.reason) == ("unavailable", "window_empty")
