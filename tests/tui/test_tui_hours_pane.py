"""Records of NCCL Inspector in the explorer: ranks against hours, zoomed to the minute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from explorers import Settle, Start, appears, listed, pane, pane_text, press, screen, shows, until
from textual.pilot import Pilot

from bench.inspector_logs import LogSpec, write_inspector_logs
from ccltui.tui.app import Explorer
from ccltui.tui.engine.loader import run_load
from ccltui.tui.panes.hours import HOURS as HOURS_PANE
from ccltui.tui.state.finding_rows import findings
from ccltui.tui.state.pane_states import HOURS, OVERVIEW

SPEC = LogSpec(ranks=24, hours=0.5, late_rank=9, late_hours=(0.1, 0.3), slow_group=5)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hours") / "job"
    write_inspector_logs(folder, SPEC)
    return folder


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the first test leaves what the others need of the records."""
    return tmp_path_factory.mktemp("columns")


@pytest.fixture(autouse=True)
def common_cache(own_cache: Path, columns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(columns))


async def opened(pilot: Pilot[int]) -> Explorer:
    """Open the pane, and wait for its rows."""
    app = pilot.app
    assert isinstance(app, Explorer)
    await until(pilot, lambda: findings(app.scene))
    await press(pilot, "^")
    assert pane(app) == HOURS
    await listed(pilot)
    return app


async def test_the_late_rank_and_its_minutes_are_in_view(start: Start, logs: Path) -> None:
    async with start(run_load, "256", str(logs)).run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)

        rows = HOURS_PANE.rows(app.scene)
        assert [row.label for row in rows] == [str(rank) for rank in range(24)]
        assert {row.label: row.num_late for row in rows if row.num_late} == {"9": 12}
        text = pane_text(app)
        assert "╷20:30" in text  # time of day, UTC
        (line,) = (line for line in text.splitlines() if " r9 " in line)
        assert line.split()[:2] == ["r9", "node-001"]
        assert "12 min" in line
        assert "·" in line
        assert "all collectives (1/6)" in "".join(screen(app))


async def test_zooming_goes_to_the_minute_at_which_it_begins(start: Start, logs: Path) -> None:
    async with start(run_load, "256", str(logs)).run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        for _ in range(9):
            await press(pilot, "j")
        await press(pilot, "w")

        assert HOURS_PANE.time(app.scene).window == 6  # minutes from the first record
        assert await appears(pilot, "r9 at 2026-05-28 20:32:50 UTC: lag 3.02 ms, late")
        await press(pilot, "a")
        assert await appears(pilot, "r9 at 2026-05-28 20:31:50 UTC: lag")
        assert not shows(app, ", late")
        await press(pilot, "w", "w", "w", "w")
        assert HOURS_PANE.time(app.scene).zoom == 2  # twelve minutes in view
        await press(pilot, "s", "d")
        assert (HOURS_PANE.time(app.scene).zoom, HOURS_PANE.time(app.scene).window) == (1, 6)
        await press(pilot, "0")
        assert HOURS_PANE.time(app.scene).zoom == 0


async def test_each_kind_of_collective_has_its_ranks(start: Start, logs: Path) -> None:
    async with start(run_load, "256", str(logs)).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot)
        kinds = HOURS_PANE.kinds(app.scene)
        assert "ReduceScatter of dp" in kinds

        await press(pilot, *["C"] * kinds.index("ReduceScatter of dp"))

        assert HOURS_PANE.kind(app.scene) == "ReduceScatter of dp"
        assert not any(row.num_late for row in HOURS_PANE.rows(app.scene))


def test_picture(snap_compare: Callable[..., bool], start: Start, logs: Path) -> None:
    async def chosen(pilot: Pilot[int]) -> None:
        await opened(pilot)
        await press(pilot, *"jjjjjjjjj", "w")

    app = start(run_load, "256", str(logs))
    assert snap_compare(app, terminal_size=(120, 40), run_before=chosen)


async def test_without_records_the_pane_says_so(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "^")
        assert pane(app) == OVERVIEW
        assert await appears(pilot, "! no records of NCCL Inspector here")
