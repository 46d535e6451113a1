"""The Ranks pane in a running explorer: folds, unfolded rows, search, and the way to a rank."""

from __future__ import annotations

from explorers import Settle, Start, pane, pane_text, typed
from fakes import FakeLoad, Plan

from ccltui.tui.moves.lists import folded_ranks
from ccltui.tui.state.own.pane_names import RANKS, TIMELINE
from ccltui.tui.state.pane import pane_named


async def test_rows_fold_unfold_and_lead_to_the_rank(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=64)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)

        assert pane(app) == RANKS
        folded = len(folded_ranks.rows(app.scene))
        await typed(pilot, "enter")
        rows = folded_ranks.rows(app.scene)
        fold = rows[0][0]
        assert fold is not None
        assert len(rows) == folded + len(fold.ranks)
        await typed(pilot, "j")
        rank = folded_ranks.rows(app.scene)[1][1]
        assert rank is not None
        assert app.scene.state.selection.rank == rank.label
        await typed(pilot, "enter")
        assert pane(app) == TIMELINE


async def test_every_kind_of_fold_has_the_sum_of_the_metric(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=16)))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)
        blame = app.scene.findings.results["straggler_lag"].details["blame"]
        total = sum(row["caused_wait_us"] for row in blame.values())

        kinds = folded_ranks.kinds(app.scene)
        assert kinds[-1] == "rank"
        for kind in kinds:
            assert folded_ranks.kind(app.scene) == kind
            listed = list(pane_named(RANKS).records(app.scene))
            found = sum(float(row["caused_wait_us"] or 0) for row in listed)
            assert abs(found - total) < 1e-6 * max(total, 1)
            await typed(pilot, "C")
        assert folded_ranks.kind(app.scene) == kinds[0]


async def test_ranks_are_found_by_number_and_host(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=16)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)
        host = next(iter(folded_ranks.table(app.scene).ranks.values())).host  # type: ignore[union-attr]
        await typed(pilot, "/", *"rank 13", "enter")

        ranks = [rank.label for _, rank in folded_ranks.rows(app.scene) if rank is not None]
        assert ranks == ["13"]
        assert "r13" in pane_text(app)
        await typed(pilot, "/", *(["backspace"] * 7), *host, "enter")
        assert len(folded_ranks.rows(app.scene)) >= 1


async def test_rows_and_the_ranks_below_them_are_sorted_by_every_column(
    start: Start, settle: Settle
) -> None:
    app = start(FakeLoad(Plan(ranks=16)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)
        found = set(folded_ranks.rows(app.scene))
        for column in folded_ranks.COLUMNS:
            await typed(pilot, "o")
            own = pane_named(RANKS).sorting(app.scene)
            assert (own.column, own.reverse) == (column, False)
            assert set(folded_ranks.rows(app.scene)) == found
            shown = folded_ranks.kind(app.scene) if column == "name" else column
            assert f"▼{shown}" in pane_text(app)
        await typed(pilot, "o", "enter", "o")
        await typed(pilot, "O")
        names = [fold.name for fold, rank in folded_ranks.rows(app.scene) if fold and not rank]
        assert names == sorted(names, key=str.lower, reverse=True)
        await typed(pilot, *(["C"] * (len(folded_ranks.kinds(app.scene)) - 1)))
        labels = [rank.label for _, rank in folded_ranks.rows(app.scene) if rank is not None]
        assert labels == [str(number) for number in range(16)]


async def test_the_row_of_the_cursor_has_its_bar(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=64)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)

        bars = [line.count("█") for line in pane_text(app).splitlines() if line.startswith("▶")]
        longest = max(line.count("█") for line in pane_text(app).splitlines())
        assert bars == [longest]
        assert longest > 0
