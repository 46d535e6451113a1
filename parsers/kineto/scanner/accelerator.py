"""Load the compiled scanner where it was built and is not turned off.

The scanner is built at install time if there is a compiler. Without it, or with
``CCLTUI_ACCEL=0``, the general decoder gives the same columns.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import GROUPS, Group
from ccltui.parsers.kineto.scanner.typed_event import StringPool
from ccltui.parsers.system.acceleration import wanted

_VERSION = 2
"""That of ``_scanner.pyx``: one compiled from older source passes other keys of tracks."""


class Scanner(Protocol):
    """Interface of the compiled scanner; see ``_scanner.pyx``."""

    ended_inside: bool

    def scan(self, text: bytes, start: int = 0) -> int:
        """Scan events from index ``start`` of ``text``; return the number of bytes consumed."""

    def take(self, group: int) -> dict[str, Any] | None:
        """Return the columns of a group since the last call, None without rows."""

    def take_spans(self) -> list[tuple[int, int, int]]:
        """Return (start, end, ordinal) of the events left to the general decoder.

        Positions count from where the last scan started.
        """

    def take_described(self) -> tuple[I32, I64, I64]:
        """Return the rows of collective arguments: three columns of one length.

        Returns:
            The index of each row's description, its sequence number (-2: the description has it),
            and the record id of its operator (empty if no event states one).
        """

    def take_counts(self) -> list[tuple[str, int, int]]:
        """Return (phase, category id, number) of all events kept or counted by the scanner."""


def compiled() -> bool:
    """Return whether the scanner was built, from the source as it is now."""
    return _module() is not None


def _module() -> Any:
    """Return the compiled module, None where there is none or it is out of date."""
    try:
        found = importlib.import_module("ccltui.parsers.kineto.scanner._scanner")
    except ImportError:
        return None
    return found if getattr(found, "VERSION", 1) == _VERSION else None


def new_scanner(
    pool: StringPool,
    tracks: dict[Any, int],
    group_of: Callable[[str | None], Group],
    input_kind: Callable[[str], int],
    describe: Callable[[str | None, bytes], int],
    *,
    launch: Callable[[bytes, bytes, bytes], int],
) -> Scanner | None:
    """Return a scanner that shares ids with the general decoder; None if it is not in use.

    Args:
        pool: Ids of texts.
        tracks: Ids of tracks, by key.
        group_of: Column group of a category.
        input_kind: What the inputs of an event of this name describe; see ``call_inputs``.
        describe: Adds collective arguments given as JSON; returns their index.
        launch: Id of a launch by the JSON texts of grid, blocks per SM and occupancy.
    """
    module = _module() if wanted() else None
    if module is None:
        return None
    indices = {group: index for index, group in enumerate(GROUPS)}
    scanner: Scanner = module.Scanner(
        pool, tracks, lambda category: indices[group_of(category)], input_kind, describe, launch
    )
    return scanner
