"""Pictures of help, prompts, loading, 16 colours and many ranks; `test_tui_looks` has all panes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from explorers import Settle, Start, typed, until
from fakes import FakeLoad, Plan
from textual.pilot import Pilot

Compare = Callable[..., bool]


def after(settle: Settle, *keys: str) -> Callable[[Pilot[int]], object]:
    """Wait, type, wait after each key: what a key does may depend on the answer to the last."""

    async def run(pilot: Pilot[int]) -> None:
        await settle(pilot)
        await typed(pilot, *keys)
        await settle(pilot)

    return run


def test_sixteen_colours(
    snap_compare: Compare, start: Start, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("textual.constants.COLOR_SYSTEM", "standard")
    app = start(color="16")

    assert snap_compare(app, terminal_size=(80, 24), run_before=after(settle, "2", "]"))


def test_many_ranks_share_rows(snap_compare: Compare, start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=64)))

    assert snap_compare(app, terminal_size=(80, 24), run_before=after(settle, "2", "]"))


def test_merged_lanes(snap_compare: Compare, start: Start, settle: Settle) -> None:
    keys = ("3", "b", "w", "w")

    assert snap_compare(start(), terminal_size=(80, 24), run_before=after(settle, *keys))


def test_help(snap_compare: Compare, start: Start, settle: Settle) -> None:
    assert snap_compare(start(), terminal_size=(80, 24), run_before=after(settle, "2", "?"))


def test_window_prompt(snap_compare: Compare, start: Start, settle: Settle) -> None:
    keys = ("3", "t", *"4s", "enter")

    assert snap_compare(start(), terminal_size=(80, 24), run_before=after(settle, *keys))


def test_too_small(snap_compare: Compare, start: Start, settle: Settle) -> None:
    assert snap_compare(start(), terminal_size=(60, 15), run_before=after(settle))


def test_while_loading(snap_compare: Compare, start: Start) -> None:
    app = start(FakeLoad(stop_after=3))

    async def wait(pilot: Pilot[int]) -> None:
        await until(
            pilot, lambda: app.scene.session.ranks_loaded >= 3 and app.scene.findings.complete
        )

    assert snap_compare(app, terminal_size=(120, 40), run_before=wait)
