"""A directory of a job that hangs: the pane of hangs, and panes of traces that are not offered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from explorers import Settle, Start, appears, listed, pane, pane_text, press, screen, until
from textual.pilot import Pilot

from ccltui.demo.hung_job import write_hung
from ccltui.demo.hung_records import write_hung_records
from ccltui.tui.app import Explorer
from ccltui.tui.engine.loader import run_load
from ccltui.tui.panes.hangs import HANGS as HANGS_PANE
from ccltui.tui.state.finding_rows import findings
from ccltui.tui.state.pane_states import HANGS, OVERVIEW

Open = Callable[..., Explorer]


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    """Dumps of eight ranks, one of which did not arrive."""
    write_hung(tmp_path / "hung", seed=1, fault="late", answer=tmp_path / "answer.json")
    return tmp_path / "hung"


@pytest.fixture
def opened(start: Start) -> Open:
    """Explorers of real directories."""
    return lambda path: start(run_load, "256", str(path))


async def told(pilot: Pilot[int]) -> Explorer:
    """Wait until the Overview has its findings."""
    app = pilot.app
    assert isinstance(app, Explorer)
    await until(pilot, lambda: findings(app.scene), "a finding")
    return app


async def test_enter_on_a_hang_shows_what_each_rank_does(opened: Open, hung: Path) -> None:
    async with opened(hung).run_test(size=(80, 24)) as pilot:
        app = await told(pilot)
        assert pane(app) == OVERVIEW
        named = findings(app.scene)[0]["where"]["ranks"]

        await press(pilot, "enter")
        await listed(pilot)

        assert pane(app) == HANGS
        first = HANGS_PANE.rows(app.scene)[0].standing
        assert first.is_named
        assert list(first.ranks) == named
        assert {one.standing.does for one in HANGS_PANE.rows(app.scene)} >= {"waits in"}
        text = pane_text(app)
        assert f"▶r{named[0]}" in text
        assert "Next: Look at rank" in text
        assert "confidence: high" in text


async def test_what_traces_show_of_the_rank_is_there_too(
    opened: Open, settle: Settle, tmp_path: Path
) -> None:
    """The pane has the sentences of the finding, also that on the traces of the same job."""
    job = tmp_path / "job"
    write_hung_records(job, seed=1, fault="late", answer=tmp_path / "answer.json")
    async with opened(job).run_test(size=(160, 50)) as pilot:
        app = await told(pilot)
        await settle(pilot)
        await press(pilot, "W")
        await listed(pilot)

        assert "In the trace that ends 120 s before the hang" in pane_text(app)


async def test_panes_of_traces_are_not_offered_without_traces(opened: Open, hung: Path) -> None:
    async with opened(hung).run_test(size=(80, 24)) as pilot:
        app = await told(pilot)

        assert screen(app)[1].split() == ["[1", "Over]", "5", "Files", "W", "Hang"]
        for key in "2346":
            await press(pilot, key)
            assert pane(app) == OVERVIEW
            assert await appears(
                pilot, "! no trace is here: record one with torch.profiler or nsys"
            )


async def test_the_pane_is_not_offered_beside_traces_alone(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "W")
        assert pane(app) == OVERVIEW
        assert await appears(pilot, "! no flight recorder dump here")
