"""The Ranks pane in a running explorer: folds, unfolded rows, search, and the way to a rank."""

from __future__ import annotations

from explorers import Settle, Start, pane, pane_text, typed
from fakes import FakeLoad, Plan

from ccltui.tui.panes.ranks_pane import RANKS as PANE
from ccltui.tui.state.pane_states import RANKS, TIMELINE


async def test_rows_fold_unfold_and_lead_to_the_rank(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=64)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)

        assert pane(app) == RANKS
        folded = len(PANE.rows(app.scene))
        await typed(pilot, "enter")
        rows = PANE.rows(app.scene)
        fold = rows[0].fold
        assert fold is not None
        assert len(rows) == folded + len(fold.ranks)
        await typed(pilot, "j")
        rank = PANE.rows(app.scene)[1].rank
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

        kinds = PANE.kinds(app.scene)
        assert kinds[-1] == "rank"
        for kind in kinds:
            assert PANE.kind(app.scene) == kind
            listed = list(PANE.records(app.scene))
            found = sum(float(row["caused_wait_us"] or 0) for row in listed)
            assert abs(found - total) < 1e-6 * max(total, 1)
            await typed(pilot, "C")
        assert PANE.kind(app.scene) == kinds[0]


async def test_ranks_are_found_by_number_and_host(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=16)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)
        host = next(iter(PANE.table(app.scene).ranks.values())).host  # type: ignore[union-attr]
        await typed(pilot, "/", *"rank 13", "enter")

        ranks = [row.rank.label for row in PANE.rows(app.scene) if row.rank is not None]
        assert ranks == ["13"]
        assert "r13" in pane_text(app)
        await typed(pilot, "/", *(["backspace"] * 7), *host, "enter")
        assert len(PANE.rows(app.scene)) >= 1


async def test_rows_and_the_ranks_below_them_are_sorted_by_every_column(
    start: Start, settle: Settle
) -> None:
    app = start(FakeLoad(Plan(ranks=16)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)
        found = set(PANE.rows(app.scene))
        for column in PANE.sort_columns(app.scene)[1:]:
            await typed(pilot, "o")
            own = PANE.sorting(app.scene)
            assert (own.column, own.reverse) == (column, False)
            assert set(PANE.rows(app.scene)) == found
            shown = PANE.kind(app.scene) if column == "name" else column
            assert f"▼{shown}" in pane_text(app)
        await typed(pilot, "o", "enter", "o")
        await typed(pilot, "O")
        names = [row.fold.name for row in PANE.rows(app.scene) if row.fold and not row.rank]
        assert names == sorted(names, key=str.lower, reverse=True)
        await typed(pilot, *(["C"] * (len(PANE.kinds(app.scene)) - 1)))
        labels = [row.rank.label for row in PANE.rows(app.scene) if row.rank is not None]
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
