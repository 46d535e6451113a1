"""Lags over time, and ranks folded into one row."""

from __future__ import annotations

import pytest
from factories import Coll, allreduce, job, rank_trace, world

from ccltui.demo.large_job import large_spec, write_large
from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.findings.causes.instance_report import BINS, lag_history
from ccltui.metrics.findings.waits.rank_lateness import (
    RankTable,
    RankWaits,
    badness,
    fold_of,
    rank_table,
)
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.job import open_job

LATE_US = (5, 5, 5, 5, 100, 5)


def rank(number: int) -> RankTrace:
    """Six collectives of 400 us at which rank 1 is late."""
    gpu = []
    for i, late in enumerate(LATE_US):
        begin = 1000 * i + (late if number else 0)
        coll = Coll("allreduce", 1000, 1000, "Float", 0, 2, i, 7)
        gpu.append(allreduce(begin, 1000 * i + 400 - begin, coll))
    return rank_trace(number, gpu=gpu, groups=[world(2)], world_size=2)


def test_distribution_and_trend() -> None:
    arrived = View(job(rank(0), rank(1))).arrivals.groups[0]
    found = lag_history(arrived, 4)

    assert found is not None
    assert found.trend_ns.tolist() == [late * 1000 for late in LATE_US]
    assert (found.place, found.median_ns) == (4, 5_000)
    assert found.counts.tolist() == [5, *[0] * (BINS - 2), 1]
    assert (found.edges_ns[0], found.edges_ns[-1]) == (5_000, 100_000)


def test_equal_lags_have_a_scale_too() -> None:
    first = View(job(rank(0), rank(1))).arrivals.groups[0]
    found = lag_history(first, 0)

    assert found is not None
    assert found.counts.sum() == len(LATE_US)
    assert (found.edges_ns[1:] >= found.edges_ns[:-1]).all()


def test_an_incomplete_collective_has_none() -> None:
    short = rank_trace(
        1,
        gpu=[allreduce(5, 395, Coll("allreduce", 1000, 1000, "Float", 0, 2, 0, 7))],
        groups=[world(2)],
        world_size=2,
    )
    arrived = View(job(rank(0), short)).arrivals.groups[0]

    assert lag_history(arrived, len(arrived.lag_ns) - 1) is None


RANKS = {
    str(n): RankWaits(str(n), f"host-{n // 4}", caused, 10.0 + n)
    for n, caused in enumerate([0.0, 5.0, 0.0, 1.0, None, 0.0, 90.0, 0.0])
}
MEMBERS: dict[str, dict[str, tuple[str | None, ...]]] = {
    "node": {"host-0": ("0", "1", "2", "3"), "host-1": ("4", "5", "6", "7")},
    "tp": {"tp 0-2:2": ("0", "2"), "tp 1-9:8": ("1", None)},
    "share": {"1 %": (), "5 %": ()},
}
TABLE = RankTable(RANKS, MEMBERS)


def test_a_fold_sums_what_is_caused_and_averages_own_waits() -> None:
    first, second = TABLE.folds("node")

    assert (first.name, first.caused_us, first.suffered_us) == ("host-1", 90.0, 15.5)
    assert (second.name, second.caused_us, second.suffered_us) == ("host-0", 6.0, 11.5)
    assert [one.label for one in second.ranks[:2]] == ["1", "3"]
    assert first.ranks[-1].label == "4"  # its waits are unknown: behind those that cause none


def test_members_without_a_file_count_in_the_size_alone() -> None:
    worst = TABLE.folds("tp")[0]

    assert (worst.name, len(worst.ranks), worst.whole) == ("tp 1-9:8", 1, 2)


def test_unknown_waits_are_not_zero() -> None:
    fold = fold_of("x", [RANKS["4"]])

    assert fold.caused_us is None
    assert badness(fold) > badness(fold_of("y", [RANKS["0"]]))


def test_shares_of_the_ranks_contain_each_once() -> None:
    ranks = {str(n): RankWaits(str(n), "", float(n), 0.0) for n in range(1000)}

    found = RankTable(ranks, MEMBERS).folds("share")

    assert [(one.name, len(one.ranks)) for one in found] == [
        ("worst 1 %", 10),
        ("1 to 5 %", 40),
        ("5 to 10 %", 50),
        ("10 to 25 %", 150),
        ("25 to 50 %", 250),
        ("50 to 100 %", 500),
    ]
    assert found[0].caused_us == sum(range(990, 1000))


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    folder = tmp_path_factory.mktemp("large")
    spec = large_spec(32, megabytes=0.3, faults=("slow_worker",), seed=1)
    write_large(folder / "job", spec)
    return View(open_job(folder / "job", cache_dir=folder / "store", jobs=1))


def test_the_table_has_nodes_and_the_groups_of_the_files(view: View) -> None:
    lag = straggler_lag.run(view)
    table = rank_table(view, lag)

    assert table.kinds == ("node", "tp", "pp", "share")  # one shard a stage: dp has no group
    assert {len(members) for members in table.members["node"].values()} == {8}
    assert {len(members) for members in table.members["pp"].values()} == {4}
    total = sum(row["caused_wait_us"] for row in lag.details["blame"].values())
    for kind in table.kinds:
        assert sum(one.caused_us or 0 for one in table.folds(kind)) == pytest.approx(total)


def test_waits_that_are_not_computed_are_unknown(view: View) -> None:
    table = rank_table(view, None)

    assert table.why == "the waits are still being computed"
    assert {one.caused_us for one in table.ranks.values()} == {None}
