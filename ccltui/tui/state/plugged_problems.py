"""Panes of other packages that are not used, and those that have failed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.tui.state.pane import all_panes

if TYPE_CHECKING:
    from ccltui.parsers.plug_ins import Skipped

_skipped: list[Skipped] = []
_failed: dict[str, Skipped] = {}


def set_skipped(entries: list[Skipped]) -> None:
    """Set the entries that are not used."""
    _skipped[:] = entries


def add_failure(pane: str, failed: Skipped) -> None:
    """Add that a method of a pane has failed; the last failure of a pane is kept."""
    _failed[pane] = failed


def failure_of(pane: str) -> str:
    """Return why a pane has no picture; "" where nothing failed."""
    found = _failed.get(pane)
    return "" if found is None else found.text


def plugged_problems() -> tuple[str, ...]:
    """Return one line for each entry that is not used, and for each pane that failed."""
    names = {pane.name for pane in all_panes()}
    failed = (one for name, one in _failed.items() if name in names)
    return tuple(one.text for one in (*_skipped, *failed))
