"""Table of the explorer's actions with the user's keys."""

from __future__ import annotations

from collections.abc import Iterator

from ccltui.config import Config
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.numbers import counted
from ccltui.report.text_layout import table
from ccltui.tui.actions.action import keys_of, shown
from ccltui.tui.actions.action_list import all_actions
from ccltui.tui.input.keymap import bind, conflicts
from ccltui.tui.state.pane import all_panes

HEADER = ("action", "keys", "what it does", "panes")


def key_lines(config: Config) -> Iterator[str]:
    """Yield the lines of a table of all actions, then the keys that settings take from actions.

    Raises:
        GrammarError: The settings are invalid.
    """
    bindings = checked(config)
    rows = []
    for action in all_actions():
        keys = " ".join(shown(key) for key in keys_of(action, bindings)) or "no key: run it with :"
        panes = [pane.title for pane in all_panes() if action.where(pane)]
        everywhere = len(panes) == len(all_panes())
        rows.append((action.id, keys, action.help, "all" if everywhere else ", ".join(panes)))
    yield from table(HEADER, rows)
    taken = list(conflicts(config.keys))
    if config.keys:
        yield ""
        have = "has" if len(config.keys) == 1 else "have"
        yield f"{counted(len(config.keys), 'action')} {have} keys of {config.path}"
    yield from taken


def checked(config: Config) -> dict[str, tuple[str, ...]]:
    """Return the keys that differ from the registry, by action.

    Raises:
        GrammarError: The settings are invalid; the message has the name of their file.
    """
    try:
        return dict(bind(config.keys))
    except GrammarError as error:
        raise GrammarError(f"{config.path}: {error}") from error
