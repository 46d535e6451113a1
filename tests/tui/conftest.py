"""Explorers on jobs in memory, with colours that do not depend on the terminal."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest
from explorers import LONGEST_S, Settle, Start
from fakes import FakeLoad, literal_analyst
from textual import _wait, constants
from textual.pilot import Pilot

from ccltui.tui.app import Explorer
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


@pytest.fixture
def start() -> Start:
    """A way to make explorers of jobs in memory."""

    def make(
        load: Load | None = None,
        color: ColorName = "256",
        path: str = "/nowhere/run-0421",
        analyst: MakeAnalyst = literal_analyst,
        **options: Any,
    ) -> Explorer:
        asked = ExplorerOptions(color=color, **options)
        return Explorer(path, asked, load=load or FakeLoad(), analyst=analyst)

    return make


@pytest.fixture
def settle() -> Settle:
    """Wait until all that was started is done and shown."""

    async def wait(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, Explorer)
        quiet, deadline = 0, monotonic() + LONGEST_S
        while monotonic() < deadline:
            await pilot.pause(0.01)
            session, findings = app.scene.session, app.scene.findings
            current = findings.generation == session.generation and findings.complete
            done = session.phase == "failed" or (not session.busy and current)
            # An answer that has come may be what the next question is about.
            quiet = quiet + 1 if done and all(one.is_finished for one in app.workers) else 0
            if quiet == 2:
                await pilot.pause()
                return
        raise AssertionError(f"never settled: {app.scene.session.phase}")

    return wait
