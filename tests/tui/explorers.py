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


async def until(pilot: Pilot[int], holds: Callable[[], object], what: str = "") -> None:
    """Wait until something holds; what is not yet done when a look begins is not seen by it.

    The longer it takes the rarer are the looks: each takes CPU time from what is waited for.
    """
    deadline, wait_s = monotonic() + LONGEST_S, 0.005
    while True:
        await pilot.pause(wait_s)
        if holds():
            return
        wait_s = min(1.5 * wait_s, 0.05)
        app = pilot.app
        assert isinstance(app, Explorer)
        assert monotonic() < deadline, "\n".join([f"never: {what}", *screen(app)])


async def listed(pilot: Pilot[int]) -> None:
    """Wait until the directory was looked at and the rows of the pane are there."""
    app = pilot.app
    assert isinstance(app, Explorer)
    await until(pilot, lambda: app.scene.session.phase == "ready" and not is_waiting(app.scene))
    await pilot.pause()


async def appears(pilot: Pilot[int], text: str) -> bool:
    """Wait until a text stands on the screen: what is computed comes when it is there."""
    app = pilot.app
    assert isinstance(app, Explorer)
    if not shows(app, text):
        await until(pilot, lambda: shows(app, text), text)
    return True


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
        if is_waiting(app.scene):
            await until(pilot, lambda: not is_waiting(app.scene))
    await pilot.pause()
    return app
