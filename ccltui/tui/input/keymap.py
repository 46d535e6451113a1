"""Key presses to actions: keys of one or two strokes, counts before them, and the user's own keys.

Digits open panes, so a count begins with alt and a digit, as in the shell: ``alt+5 ]`` goes to the
fifth worst collective from the cursor. In the command palette a count is typed as it is: ``:5]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.config import Config, nearest
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.numbers import counted
from ccltui.report.text_layout import table
from ccltui.tui.action import Action, Bindings, Effect, keys_of, shown
from ccltui.tui.action_list import active, all_actions
from ccltui.tui.state.pane import Pane, all_panes

if TYPE_CHECKING:
    from ccltui.tui.state.scene import Scene


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


MAX_COUNT: Final = 9999
_ALT: Final = "alt+"


def append_digit(count: str, key: str) -> str:
    """Return the count with one more digit, an empty text if the key is no digit."""
    digit = key.removeprefix(_ALT)
    began = bool(count) or key.startswith(_ALT)
    if not began or len(digit) != 1 or digit not in "0123456789":
        return ""
    return str(min(int(count + digit), MAX_COUNT))


def repeated(action: Action, scene: Scene, times: int) -> tuple[Scene, str]:
    """Repeat an action until it has been done ``times`` times, cannot act, or changes nothing.

    Returns:
        The scene after that, and why it stopped early, empty if it did not. An action with an
        `Effect` is left to the application, which performs it once: the scene is unchanged.
    """
    if isinstance(action.act, Effect):
        return scene, ""
    for done in range(times):
        why = action.why_not(scene)
        if why is not None:
            return scene, why if not done else f"{done:,} of {times:,}: {why}"
        state = action.act(scene)
        if state == scene.state:
            break
        scene = scene.with_state(state)
    return scene, ""


_NAMES: Final = frozenset(
    {
        *("left", "right", "up", "down", "home", "end", "pageup", "pagedown"),
        *("escape", "enter", "tab", "space", "backspace", "delete", "insert"),
        *(f"f{number}" for number in range(1, 13)),
    }
)
_MODIFIED: Final = re.compile(r"(?:(?:ctrl|alt|shift)\+)+(?P<name>.+)")
PREFIXES: Final = ("g",)
"""Keys that may begin a key of two strokes. Their prompt passes the second stroke to the keymap."""


class Pressed(Struct, frozen=True):
    """The action of a key press, or why there is none."""

    action: Action | None = None
    problem: str = ""


class Keymap:
    """The action of each key in each pane."""

    def __init__(self, bindings: Bindings | None = None) -> None:
        self._bound = {
            pane.name: {
                key: action
                for action in active(pane.name)
                for key in keys_of(action, bindings or {})
            }
            for pane in all_panes()
        }

    def press(self, pane: str, before: str, key: str) -> Pressed:
        """Look up a key, after the stroke ``before``, which is empty for a key of one stroke."""
        bound = self._bound[pane]
        typed = f"{before} {key}" if before else key
        if typed in bound:
            return Pressed(action=bound[typed])
        in_other_panes = [other for other in all_panes() if typed in self._bound[other.name]]
        if in_other_panes:
            return Pressed(problem=f"{shown(typed)} {works_in(in_other_panes)}")
        return Pressed(problem=f"{shown(typed)} is not a key here: ? lists them")


def works_in(panes: Sequence[Pane]) -> str:
    """Return a phrase that names the panes in which an action works."""
    *others, last = [f"{pane.key} {pane.title}" for pane in panes]
    return f"works in {', '.join(others)} and {last}" if others else f"works in {last}"


def bind(chosen: Bindings, actions: Sequence[Action] | None = None) -> Bindings:
    """Return the keys of every action whose keys differ from those of the registry, by id.

    A key that is chosen for one action is taken from another that has it by default.

    Raises:
        GrammarError: An action or a key does not exist, or a key is chosen twice in a pane.
    """
    actions = all_actions() if actions is None else actions
    known = {action.id: action for action in actions}
    for name, keys in chosen.items():
        if name not in known:
            raise GrammarError(f"[keys] no action is called {name!r}{nearest(name, known)}")
        for key in keys:
            _check_key(name, key)
    _check_twice(chosen, known)
    unchosen = {
        action.id: tuple(key for key in action.keys if not _taken(action, key, chosen, known))
        for action in actions
        if action.id not in chosen
    }
    changed = {name: keys for name, keys in unchosen.items() if keys != known[name].keys}
    return {**changed, **chosen}


def conflicts(chosen: Bindings, actions: Sequence[Action] | None = None) -> Iterator[str]:
    """Yield a sentence for each key that the chosen keys take from another action."""
    actions = all_actions() if actions is None else actions
    known = {action.id: action for action in actions}
    for action in actions:
        for key in () if action.id in chosen else action.keys:
            taker = _taken(action, key, chosen, known)
            if taker:
                yield f"{shown(key)} is {taker} now, no longer {action.id}"


def _check_key(name: str, key: str) -> None:
    strokes = key.split(" ") if len(key) > 1 else [key]
    is_valid = len(strokes) == 1 or (len(strokes) == 2 and strokes[0] in PREFIXES)
    if not is_valid or not all(_is_key(stroke) for stroke in strokes):
        raise GrammarError(f"[keys] {name}: {key!r} is not a key such as 'x', 'ctrl+x' or 'g x'")


def _is_key(stroke: str) -> bool:
    modified = _MODIFIED.fullmatch(stroke)
    name = stroke if modified is None else modified["name"]
    return (len(name) == 1 and name.isprintable() and name != " ") or name in _NAMES


def _check_twice(chosen: Bindings, known: Mapping[str, Action]) -> None:
    owners: dict[tuple[str, str], str] = {}
    for name, keys in chosen.items():
        for pane in filter(known[name].where, all_panes()):
            for key in keys:
                other = owners.setdefault((pane.name, key), name)
                if other != name:
                    raise GrammarError(f"[keys] {key!r} is both {other} and {name}")


def _taken(action: Action, key: str, chosen: Bindings, known: Mapping[str, Action]) -> str:
    """Return the action for which a default key of this one was chosen, empty without one."""
    takers = (name for name, keys in chosen.items() if key in keys and _meet(known[name], action))
    return next(takers, "")


def _meet(one: Action, other: Action) -> bool:
    """Whether two actions act in the same pane."""
    return any(one.where(pane) and other.where(pane) for pane in all_panes())
