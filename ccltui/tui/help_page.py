"""Help page of a pane, generated from the registry of actions."""

from __future__ import annotations

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line, wrap
from ccltui.tui.action import Action, Bindings, first_key
from ccltui.tui.action_list import GROUPS, active, by_id
from ccltui.tui.chrome_lines import cut
from ccltui.tui.state.pane import pane_named

_MOST_LINES = 99
"""No explanation is cut: the page scrolls."""
_COLUMN = 40
_KEYS_WIDTH = 9


def help_lines(pane: str, width: int, bindings: Bindings) -> list[Line]:
    """Return all actions of a pane by group, in as many columns as fit."""
    shown = pane_named(pane)
    lines = [cut([(f" Help: {shown.title}", Ink.HEADER)], width, Ink.HEADER_DIM)]
    about = wrap(shown.about, width - 2, most=_MOST_LINES)
    lines += [cut([(f" {text}", Ink.TEXT)], width, Ink.TEXT) for text in about]
    columns = max(width // _COLUMN, 1)
    entries = _entries(pane, bindings)
    rows = -(-len(entries) // columns)
    for row in range(rows):
        pieces: Line = []
        for cell in entries[row::rows]:
            pieces += cut(cell, width // columns, Ink.TEXT)
        lines.append(cut(pieces, width, Ink.TEXT))
    return lines


def _entries(pane: str, bindings: Bindings) -> list[Line]:
    entries: list[Line] = []
    for group in GROUPS:
        actions = [action for action in active(pane) if action.group == group]
        seconds = {action.pair for action in actions}
        if actions:
            entries.append([(f" {group}", Ink.STRONG)])
        for action in actions:
            if action.id not in seconds:
                entries += _explained(action, bindings)
    return entries


def _explained(action: Action, bindings: Bindings) -> list[Line]:
    """Return two paired actions in one line, or in two lines where their keys are long."""
    keys = first_key(action, bindings)
    if not action.pair:
        return [_entry(keys, action.help)]
    second = by_id(action.pair)
    other = first_key(second, bindings)
    if len(f"{keys} {other}") > _KEYS_WIDTH:
        return [_entry(keys, action.help), _entry(other, second.help)]
    return [_entry(f"{keys} {other}", action.pair_help or action.help)]


def _entry(keys: str, text: str) -> Line:
    return [(f"  {keys.ljust(_KEYS_WIDTH)} ", Ink.KEY), (text, Ink.TEXT)]


def help_page(
    pane: str, first: int, width: int, height: int, bindings: Bindings
) -> tuple[list[Line], int]:
    """Return the lines from ``first`` on that fit above a foot, and the first line shown."""
    lines = help_lines(pane, width, bindings)
    room = max(height - 1, 1)
    last = max(len(lines) - room, 0)
    first = max(min(first, last), 0)
    more = "j/k scroll   " if last else ""
    foot = cut([(f" {more}any other key closes", Ink.DIM)], width, Ink.TEXT)
    page = lines[first : first + room]
    blank: Line = cut([], width, Ink.TEXT)
    return [*page, *[blank] * (room - len(page)), foot], first


SCROLL = {"j": 1, "down": 1, "k": -1, "up": -1, "pagedown": 10, "pageup": -10}
"""Lines by which a key scrolls the help; any other key closes it."""
