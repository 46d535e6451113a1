"""Imports without what the explorer never uses, for the sake of the first frame."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Final

_PALETTE: Final = (
    *("CommandListItem", "CommandPalette", "SimpleProvider"),
    *("Provider", "DiscoveryHit", "Hit", "Hits"),
)


def import_textual() -> None:
    """Import Textual's application without its command palette, and asyncio without TLS.

    The palette brings a dozen widgets, TLS a library: a tenth of the time to the first frame.
    Whoever imports them later gets them.
    """
    with _absent("ssl"):
        importlib.import_module("asyncio")
    if "textual.app" in sys.modules:
        return
    try:
        with _standing_in("textual.command", {name: type(name, (), {}) for name in _PALETTE}):
            importlib.import_module("textual.app")
    except ImportError:  # another version, which asks for more of the palette
        importlib.import_module("textual.app")


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """A module that cannot be imported meanwhile, unless it is there already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # as the import system has it
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def _standing_in(name: str, members: Mapping[str, object]) -> Iterator[None]:
    """A module of these members in place of one that is not imported yet."""
    if name in sys.modules:
        yield
        return
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
