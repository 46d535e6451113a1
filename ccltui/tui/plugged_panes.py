"""Panes of other packages: registered after the built-in ones, and contained when they are used.

A method of such a pane that fails has the answer that a pane without it would give, and the pane
shows what failed in place of its picture: neither the other panes nor the explorer end by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import ccltui.tui.panes  # noqa: F401  (the built-in ones are registered first)
from ccltui.parsers.plug_ins import PANES, PlugIn, Skipped, installed, loaded, reason_of
from ccltui.tui.state.notes import add_failure, failure_of, set_skipped
from ccltui.tui.state.pane import Pane, all_panes, register

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.state.scene import Scene

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_WIDGETS: Final = frozenset(
    {"header", "tabs", "loadbar", "panes", "drawer", "status", "keys", "cover", "compare"}
)
"""Names of other widgets of the screen, and of the pane that ``ccltui A B`` adds."""
_TEXTS: Final = ("name", "key", "title", "short_title", "about")


def register_plugged_panes() -> None:
    """Register the panes of other packages that are not registered yet."""
    known = {getattr(pane, "plug_in", None) for pane in all_panes()}
    problems = [_register(entry) for entry in installed(PANES) if entry not in known]
    set_skipped([one for one in problems if one is not None])


def _register(entry: PlugIn) -> Skipped | None:
    found = loaded(entry)
    if isinstance(found, Skipped):
        return found
    if not isinstance(found, Pane):
        return entry.skipped(f"{entry.value} is a {type(found).__name__}, not an object of Pane")
    problem = _problem(found)
    if problem:
        return entry.skipped(f"{entry.value} {problem}")
    try:
        register(_contained(found, entry))
    except (ValueError, AttributeError) as error:
        return entry.skipped(str(error))
    return None


def _problem(pane: Pane) -> str:
    """Return why a pane cannot be used; "" where it can."""
    missing = [name for name in _TEXTS if not isinstance(getattr(pane, name, None), str)]
    if missing:
        return f"has no {', '.join(missing)}"
    if not _NAME.fullmatch(pane.name):
        return f"has the name {pane.name!r}: letters a-z, digits and _ are allowed"
    if pane.name in _WIDGETS or pane.name in {one.name for one in all_panes()}:
        return f"has the name {pane.name!r}, which is already taken"
    if len(pane.key) != 1 or not pane.key.isprintable() or pane.key.isspace():
        return f"has the key {pane.key!r}: one character is a key"
    from ccltui.tui.action_list import all_actions  # noqa: PLC0415  (few have such panes)

    owner = next((one for one in all_actions() if pane.key in one.keys), None)
    return "" if owner is None else f"has the key {pane.key!r}, which {owner.help!r} has"


def _contained(pane: Pane, entry: PlugIn) -> Pane:
    """Return the pane with methods that raise nothing in place of its own."""
    pane.plug_in = entry  # type: ignore[attr-defined]
    for name, default in vars(Pane).items():
        if not name.startswith("_") and callable(default):
            usual = _failure_picture if name == "paint" else default
            setattr(pane, name, _guarded(pane, entry, getattr(pane, name), usual))
    return pane


def _guarded(
    pane: Pane, entry: PlugIn, method: Callable[..., Any], usual: Callable[..., Any]
) -> Callable[..., Any]:
    name = method.__name__

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return _checked(name, method(*arguments, **options), arguments)
        except (Exception, SystemExit) as error:
            add_failure(pane.name, entry.skipped(f"{name} failed: {reason_of(error)}"))
            return usual(pane, *arguments, **options)

    return call


def _checked(name: str, found: Any, arguments: tuple[Any, ...]) -> Any:
    """Return what a method returned, computed to its end. Raises TypeError for a wrong picture."""
    if name in {"queries", "records"}:
        return iter(tuple(found))
    if name == "paint":
        from ccltui.draw.planes import Planes  # noqa: PLC0415  (numpy: after the first paint)

        size = arguments[1:]
        if not isinstance(found, Planes) or (found.height, found.width) != size:
            raise TypeError(f"it returned no Planes of {size[0]} rows and {size[1]} columns")
    return found


def _failure_picture(pane: Pane, scene: Scene, height: int, width: int) -> Planes:
    """Draw the reason why the pane has no picture."""
    from ccltui.draw.palette import Ink  # noqa: PLC0415  (numpy: after the first paint)
    from ccltui.draw.planes import Planes  # noqa: PLC0415

    planes = Planes.blank(height, width, Ink.TEXT)
    for row, line in enumerate(wrap(failure_of(pane.name), max(width - 2, 1))[:height]):
        planes.put(row, 1, line, Ink.ERROR)
    return planes
