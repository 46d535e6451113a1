"""Whether the compiled scanner is there and wanted.

It is built by the install where a compiler is, and is left out without harm where not:
the general decoder gives the same columns. ``CCLTUI_ACCEL=0`` turns it off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import GROUPS, Group
from ccltui.parsers.kineto.scanner.text_ids import StringPool
from ccltui.parsers.system.acceleration import wanted


class Scanner(Protocol):
    """What the compiled scanner offers; see ``_scanner.pyx``."""

    ended_inside: bool

    def scan(self, text: bytes) -> int:
        """Scan events from the start of ``text``; bytes that are done with."""

    def take(self, group: int) -> dict[str, Any] | None:
        """Columns of a group since the last call."""

    def take_spans(self) -> list[tuple[int, int, int]]:
        """Events left to the general decoder: (start, end, ordinal)."""

    def take_described(self) -> tuple[I32, I64, I64]:
        """By row of what was said of a collective: its index, sequence number or -2, operator."""

    def take_counts(self) -> list[tuple[str, int, int]]:
        """(phase, category id, number) of all events kept or counted here."""


def compiled() -> bool:
    """Whether the scanner was built."""
    try:
        import ccltui.parsers.kineto.scanner._scanner  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def new_scanner(
    pool: StringPool,
    tracks: dict[Any, int],
    group_of: Callable[[str | None], Group],
    shape_of: Callable[[str], int],
    describe: Callable[[str | None, bytes], int],
    *,
    launch: Callable[[bytes, bytes, bytes], int],
) -> Scanner | None:
    """A scanner that shares ids with the general decoder, None where there is none."""
    if not wanted() or not compiled():
        return None
    from ccltui.parsers.kineto.scanner import _scanner  # noqa: PLC0415

    indices = {group: index for index, group in enumerate(GROUPS)}
    scanner: Scanner = _scanner.Scanner(
        pool, tracks, lambda category: indices[group_of(category)], shape_of, describe, launch
    )
    return scanner
