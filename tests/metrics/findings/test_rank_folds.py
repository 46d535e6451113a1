"""Waits of ranks folded by node, group and share: sums of known numbers, worst first."""

from __future__ import annotations

import pytest

from ccltui.demo.large_job import large_spec, write_large
from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.findings.waits.rank_lateness import (
    RankTable,
    RankWaits,
    badness,
    fold_of,
    rank_table,
)
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

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
