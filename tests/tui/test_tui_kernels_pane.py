"""The Kernels pane in a running explorer: kinds of rows, order, filter, and the way to an event."""

from __future__ import annotations

import re

import pytest
from explorers import Settle, Start, appears, pane, pane_text, typed
from factories import Event, job, kernel, rank_trace
from fakes import scene

from ccltui.metrics.device.work_pivot import pivot_columns
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.tui.action_list import active
from ccltui.tui.app import Explorer
from ccltui.tui.panes.kernels import KERNELS as PANE
from ccltui.tui.panes.kernels import KINDS
from ccltui.tui.state.pane import pane_named
from ccltui.tui.state.pane_states import DEVICE, EVENTS, EVENTS_STATE, KERNELS, TIMELINE


def names(app: Explorer) -> list[str]:
    """Names of the listed rows."""
    return [row.name for row in PANE.rows(app.scene)]


async def test_the_table_is_that_of_the_metric(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(160, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "*")

        assert pane(app) == KERNELS
        found = PANE.table(app.scene)
        assert found is not None
        job = app.scene.session.job
        assert job is not None
        table = find("kernels").run(View(job)).details["kernels"]
        assert [(row["name"], row["calls"]) for row in table] == list(
            zip(found.name, found.calls.tolist(), strict=True)
        )
        assert [row["total_ms"] for row in table] == [ns / 1e6 for ns in found.total_ns.tolist()]
        assert table[0]["name"] in pane_text(app)
        assert await appears(pilot, "▼total")


async def test_rows_are_sorted_reversed_and_filtered(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(160, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "*", "o")
        by_calls = names(app)
        found = PANE.table(app.scene)
        assert found is not None
        calls = dict(zip(found.name, found.calls.tolist(), strict=True))

        assert PANE.sorting(app.scene).column == "calls"
        assert [calls[name] for name in by_calls] == sorted(calls.values(), reverse=True)

        await typed(pilot, "O")

        assert [calls[name] for name in names(app)] == sorted(calls.values())
        assert await appears(pilot, "by calls, reversed")

        await typed(pilot, "h", "h")

        assert names(app) == sorted(by_calls, key=str.lower)

        await typed(pilot, "/", *"NCCL")  # not yet accepted: the rows follow what is typed

        kept = [name for name in by_calls if re.search("nccl", name, re.IGNORECASE)]
        assert 0 < len(kept) < len(by_calls)
        assert sorted(names(app)) == sorted(kept)

        await typed(pilot, "escape")

        assert len(names(app)) == len(by_calls)

        await typed(pilot, "/", *"no such", "enter")

        assert names(app) == []
        assert "No row matches /no such/: / changes the filter." in pane_text(app)

        await typed(pilot, "escape")

        assert len(names(app)) == len(by_calls)


async def test_every_kind_of_rows_in_turn(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "*")
        totals = {}
        for by in KINDS:
            found = PANE.table(app.scene)
            assert found is not None
            assert PANE.kind(app.scene) == by
            totals[by] = sum(found.total_ns.tolist())
            await typed(pilot, "C")

        assert PANE.kind(app.scene) == "name"
        assert len(set(totals.values())) == 1  # the same work, divided in other ways


async def test_enter_shows_the_longest_instance(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "*", "j")
        row = PANE.chosen(app.scene)
        assert row is not None
        rank, event = row.table.longest_rank[row.at], row.get("longest_row")
        await typed(pilot, "enter")

        state = app.scene.state
        assert state.pane == TIMELINE
        assert state.selection.rank == rank
        await typed(pilot, "4")

        assert app.scene.state.pane == EVENTS
        own = EVENTS_STATE.of(app.scene.state)
        assert (own.kind, own.chosen) == (DEVICE, event)
        assert pane_named(EVENTS).kernel_row(app.scene) == (rank, event)


@pytest.mark.parametrize("by", KINDS)
async def test_rows_are_exported_with_their_names(start: Start, settle: Settle, by: str) -> None:
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await typed(pilot, "*", *"C" * KINDS.index(by))
        records = list(pane_named(KERNELS).records(app.scene))

        assert [record[by] for record in records] == names(app)
        assert all(record["calls"] for record in records)


def test_without_device_work_it_says_where_the_operators_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts = View(job(rank_trace(0, cpu_ops=[Event("aten::mm", 0, 5000, 1)])))
    devices = View(job(rank_trace(0, gpu=[kernel("sgemm", 0, 5000)])))
    for view, expected in (
        (hosts, "no device work is recorded: 3, then U shows the operators of the hosts"),
        (devices, "no kernel was recorded in the window"),
    ):
        table = pivot_columns(view, "name")
        monkeypatch.setattr(PANE, "table", lambda _, table=table: table)

        assert PANE.why_no_rows(scene()) == expected
    (host_action,) = [one for one in active(TIMELINE) if "U" in one.keys]
    assert host_action.id == "view.unfold_host"
