"""Explorers on jobs in memory, with colours that do not depend on the terminal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from explorers import LONGEST_S, Settle, Start, until
from fakes import FakeLoad, literal_analyst
from textual import _wait, constants
from textual._compositor import Compositor
from textual.pilot import Pilot
from textual.widget import Widget

from ccltui.tui.app import Explorer
from ccltui.tui.canvas import CellCanvas
from ccltui.tui.engine.background import MakeAnalyst
from ccltui.tui.engine.loader import Load
from ccltui.tui.options import ColorName, ExplorerOptions


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same colours everywhere."""
    monkeypatch.setattr(constants, "COLOR_SYSTEM", "256")
    monkeypatch.setattr(constants, "TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look every 4 ms whether the application still computes; a pilot does so twice after a key.

    At Textual's 20 ms the tests of this folder sleep for longer than they compute. What counts as
    idle stays: less than 1 ms of CPU time between two looks.
    """
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", 0.004)


@pytest.fixture(autouse=True)
def panes_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pilot not wait for panes out of view, which draw nothing.

    After each key it sends every widget a message and waits for it: for the 16 panes out of view
    that is a third of the CPU time of a key.
    """

    def call_later(pane: CellCanvas, *arguments: Any) -> bool:
        return pane.display and Widget.call_later(pane, *arguments)

    monkeypatch.setattr(CellCanvas, "call_later", call_later)


@pytest.fixture(autouse=True)
def copied_by_default(copied_processes: None) -> None:
    """What computes for explorers is a copy: to start it is no subject here."""


@pytest.fixture(autouse=True)
def drawn_when_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Textual compose no screen that nobody sees.

    Without a terminal it composes one after each change and throws it away: a fifth of the CPU time
    of a key. What a test looks at is composed when it does.
    """
    render = Compositor.render_update

    def render_update(compositor: Compositor, full: bool = False, **more: Any) -> Any:
        if full:
            return render(compositor, full=True, **more)
        compositor._dirty_regions.clear()
        return None

    monkeypatch.setattr(Compositor, "render_update", render_update)


@pytest.fixture
def start() -> Start:
    """A way to make explorers of jobs in memory, or of directories that one process reads.

    A second one would take 0.3 CPU-s to start, for files that are read in less.
    """

    def make(
        load: Load | None = None,
        color: ColorName = "256",
        path: str = "/nowhere/run-0421",
        analyst: MakeAnalyst = literal_analyst,
        **options: Any,
    ) -> Explorer:
        asked = ExplorerOptions(color=color, **{"jobs": 1, **options})
        return Explorer(path, asked, load=load or FakeLoad(), analyst=analyst)

    return make


@pytest.fixture
def settle() -> Settle:
    """Wait until all that was started is done and shown."""

    async def wait(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, Explorer)

        def is_done() -> bool:
            session, findings = app.scene.session, app.scene.findings
            current = findings.generation == session.generation and findings.complete
            done = session.phase == "failed" or (not session.busy and current)
            return done and all(one.is_finished for one in app.workers)

        async with asyncio.timeout(LONGEST_S):
            await until(pilot, is_done, "everything is done")
            # An answer that has come may be what the next question is about.
            await pilot.pause(0.01)
            while not is_done():
                await until(pilot, is_done, "everything is done")
                await pilot.pause(0.01)
            await pilot.pause()

    return wait
