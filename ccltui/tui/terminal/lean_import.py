"""Import Textual without its command palette and asyncio without TLS, which are not used.

The palette imports a dozen widgets, asyncio the TLS library. Without them the first frame, of some
250 CPU-ms, takes 16 to 20 ms less for the palette and 6 less for TLS: a tenth.
"""

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

    A later import of either module imports it as usual.
    """
    with _unimportable("ssl"):
        importlib.import_module("asyncio")
    if "textual.app" in sys.modules:
        return
    try:
        with _stub_module("textual.command", {name: type(name, (), {}) for name in _PALETTE}):
            importlib.import_module("textual.app")
    except ImportError:  # another version, which imports more names of the palette
        importlib.import_module("textual.app")


@contextmanager
def _unimportable(name: str) -> Iterator[None]:
    """Make imports of a module fail within the block, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # None makes an import fail
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def _stub_module(name: str, members: Mapping[str, object]) -> Iterator[None]:
    """Replace a module by one of these members within the block, unless it is imported already."""
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
