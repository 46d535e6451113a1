"""Types of the fixtures, and what a test of the whole application does: type and look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from textual.pilot import Pilot

from ccltui.tui.app import Explorer
from ccltui.tui.state.wanted_queries import is_waiting

LONGEST_S = 120.0
"""A test that waits so long has failed: a machine that is busy needs a tenth of it."""
Start = Callable[..., Explorer]
Settle = Callable[[Pilot[int]], Awaitable[None]]


def screen(app: Explorer) -> list[str]:
    """Characters of every row of the screen."""
    return [
        "".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()
    ]


def shows(app: Explorer, text: str) -> bool:
    """Whether a text stands on the screen."""
    return any(text in row for row in screen(app))


def pane(app: Explorer) -> str:
    """The pane in view."""
    return app.scene.state.pane


def pane_text(app: Explorer) -> str:
    """Text of the pane in view."""
    canvas = app.screen.query_one(f"#{pane(app)}")
    return "\n".join(strip.text for strip in canvas.render_lines(canvas.size.region))


async def listed(pilot: Pilot[int]) -> None:
    """Wait until the directory was looked at and the rows of the pane are there."""
    app = pilot.app
    assert isinstance(app, Explorer)
    deadline = monotonic() + LONGEST_S
    while monotonic() < deadline:
        await pilot.pause(0.01)
        if app.scene.session.phase == "ready" and not is_waiting(app.scene):
            await pilot.pause()
            return
    raise AssertionError("the rows never came")


async def appears(pilot: Pilot[int], text: str) -> bool:
    """Whether a text stands on the screen by and by: what is computed comes when it is there."""
    app = pilot.app
    assert isinstance(app, Explorer)
    deadline = monotonic() + LONGEST_S
    while monotonic() < deadline:
        if shows(app, text):
            return True
        await pilot.pause(0.01)
    return False


async def press(pilot: Pilot[int], *keys: str) -> None:
    """Type, and let the screen follow."""
    await pilot.press(*keys)
    await pilot.pause()


async def typed(pilot: Pilot[int], *keys: str) -> Explorer:
    """Type, and wait for the answers."""
    app = pilot.app
    assert isinstance(app, Explorer)
    for key in keys:
        await press(pilot, key)
        while is_waiting(app.scene):
            await pilot.pause(0.01)
    await pilot.pause()
    return app
