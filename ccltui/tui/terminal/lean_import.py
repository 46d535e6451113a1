"""Import Textual without its palette, toasts and folders, and asyncio without TLS: all unused.

The palette imports a dozen widgets, toasts a dozen containers, asyncio the TLS library, the folder
for downloads compression and temporary files. Without them the first frame, of some 250 CPU-ms,
takes 16 to 20 ms less for the palette, 6 for TLS, and 5 each for toasts and folders.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

_PALETTE: Final = (
    *("CommandListItem", "CommandPalette", "SimpleProvider"),
    *("Provider", "DiscoveryHit", "Hit", "Hits"),
)


def _downloads_path() -> Path:
    """Return the folder for files that an application delivers, as platformdirs knows it."""
    found: Path = importlib.import_module("platformdirs").user_downloads_path()
    return found


def _unused() -> Mapping[str, Mapping[str, object]]:
    """Return modules that Textual imports at its start, and the names that it takes from them."""
    return {
        "textual.command": {name: type(name, (), {}) for name in _PALETTE},
        "textual.widgets._toast": {"ToastRack": type("ToastRack", (), {})},
        "platformdirs": {"user_downloads_path": _downloads_path},
    }


def import_textual() -> None:
    """Import Textual's application without what is never shown, and asyncio without TLS.

    A later import of these modules imports them as usual.
    """
    with _unimportable("ssl"):
        importlib.import_module("asyncio")
    if "textual.app" in sys.modules:
        return
    try:
        with ExitStack() as stack:
            for name, members in _unused().items():
                stack.enter_context(_stub_module(name, members))
            importlib.import_module("textual.app")
    except ImportError:  # another version, which imports more names of them
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
