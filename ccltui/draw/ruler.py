"""Ticks: round steps that leave room for their labels."""

from __future__ import annotations

from collections.abc import Iterator

MIN_CELLS = 12


def round_step(span: int, cells: int, *, apart: int = MIN_CELLS) -> int:
    """The smallest 1, 2, 5 times a power of ten with ticks at least ``apart`` cells apart."""
    wanted = max(span * apart / max(cells, 1), 1)
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= wanted:
                return factor * power
        power *= 10


def ticks(start: int, end: int, step: int) -> Iterator[int]:
    """Multiples of ``step`` in [start, end)."""
    first = -(-start // step) * step
    yield from range(first, end, step)
