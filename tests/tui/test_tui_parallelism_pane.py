"""The Parallelism pane in a running explorer: rows, folds, order, and the way to a collective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from explorers import Settle, Start, appears, pane, pane_text, shows, typed
from fakes import FakeLoad, Plan

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.numbers import percent_cell
from ccltui.tui.app import Explorer
from ccltui.tui.panes.parallelism_pane import FIGURES
from ccltui.tui.panes.parallelism_pane import PARALLELISM as PANE
from ccltui.tui.state.pane import pane_named
from ccltui.tui.state.pane_states import ALIGNMENT, PARALLELISM


def listed(app: Explorer) -> list[Mapping[str, Any]]:
    return [row.values for row in PANE.rows(app.scene)]


def chosen(app: Explorer) -> Mapping[str, Any] | None:
    row = PANE.chosen(app.scene)
    return None if row is None else row.values


async def test_the_rows_are_those_of_the_metric(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "%")

        assert pane(app) == PARALLELISM
        job = app.scene.session.job
        assert job is not None
        details = find("parallelism").run(View(job)).details
        rows = listed(app)
        assert [row for row in rows if row["group"] is None] == details["dimensions"]
        assert len(rows) == 1  # the only group has the numbers of its dimension: folded
        await typed(pilot, "space")
        assert listed(app)[1:] == details["groups"]
        hidden = percent_cell(details["hidden_ratio"])
        assert f"{hidden} of the time in collectives is hidden" in pane_text(app)
        records = list(pane_named(PARALLELISM).records(app.scene))
        assert [(row["dim"], row["calls"]) for row in records] == [
            (row["dim"], row["calls"]) for row in (*details["dimensions"], *details["groups"])
        ]


async def test_groups_are_folded_and_unfolded(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=64)))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await typed(pilot, "%")
        before = listed(app)
        await typed(pilot, "space")
        after = listed(app)

        assert len(after) != len(before)
        await typed(pilot, "j", "space")  # from a group or the next dimension back
        row = chosen(app)
        assert row is not None
        assert row["group"] is None


async def test_rows_are_sorted_and_reversed(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "%", "o")
        dims = [row for row in listed(app) if row["group"] is None]

        assert PANE.sorting(app.scene).column == "calls"
        assert await appears(pilot, "▼calls")
        calls = [row["calls"] for row in dims]
        assert calls == sorted(calls, reverse=True)

        await typed(pilot, "O")

        again = [row for row in listed(app) if row["group"] is None]
        assert [row["calls"] for row in again] == sorted(calls)


async def test_enter_opens_the_worst_collective(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "%")
        row = next(row for row in listed(app) if row["worst"])
        worst = row["worst"]
        while chosen(app) != row:
            await typed(pilot, "j")
        await typed(pilot, "enter")

        scene = app.scene
        assert scene.state.pane == ALIGNMENT
        assert scene.state.selection.rank == worst["rank"]
        communicator, k = scene.communicator, scene.state.selection.k
        assert communicator is not None
        assert k is not None
        assert (communicator.number, int(communicator.row[k])) == (
            worst["group_number"],
            worst["index"],
        )


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_every_column_and_its_reason(
    start: Start, settle: Settle, size: tuple[int, int]
) -> None:
    app = start(FakeLoad(Plan(ranks=1)))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await typed(pilot, "%")

        heading = pane_text(app).splitlines()[1]
        assert heading.split() == ["dimension", *FIGURES, "worst"]
        assert "--" in pane_text(app)
        assert size[0] < 200 or shows(app, "wait, skew, worst: ")
