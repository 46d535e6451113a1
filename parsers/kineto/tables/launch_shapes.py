"""Compute blocks per SM and occupancy of kernels from their launch arguments.

A file has few distinct launches, so arguments are stored once as text and kernels hold ids.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ccltui.parsers.array_types import F32, F64, I32
from ccltui.parsers.columns import MISSING, Device, Track
from ccltui.parsers.kineto.json_text.typed_event import DECODE_ERRORS

if TYPE_CHECKING:
    from ccltui.parsers.kineto.json_text.typed_event import Event

_MAX_VALUE = 1e12  # larger numbers are corrupt
_BLOCK_ROWS = 1 << 16  # rows computed at a time, to keep temporary arrays small


class LaunchShapes:
    """Ids of distinct launches: JSON texts of grid, blocks per SM and occupancy."""

    def __init__(self) -> None:
        self._ids: dict[tuple[bytes, bytes, bytes], int] = {}

    def id_of(self, grid: bytes, blocks_per_sm: bytes, occupancy: bytes) -> int:
        """Return the id of a launch; b"" for absent values, -1 if all are absent."""
        key = (grid, blocks_per_sm, occupancy)
        return self._ids.setdefault(key, len(self._ids)) if any(key) else MISSING

    def ids_of(self, events: list[Event]) -> list[int]:
        """Return the launch id of each event."""
        return [
            MISSING
            if event.args is None
            else self.id_of(
                bytes(event.args.grid),
                bytes(event.args.blocks_per_sm),
                bytes(event.args.occupancy),
            )
            for event in events
        ]

    def columns(
        self, ids: I32, track: I32, tracks: tuple[Track, ...], devices: tuple[Device, ...]
    ) -> dict[str, F32]:
        """Return ``blocks_per_sm`` and ``occupancy_pct`` of events, without columns of no value.

        Where a file states the grid alone, its blocks are divided by the SMs of the device. A
        device that is not listed is assumed to have the SMs of the listed ones, if these agree:
        a process may renumber the devices that it sees.
        """
        stated = [(_number(b), _blocks(g), _number(o)) for g, b, o in self._ids]
        table = np.array([*stated, (MISSING,) * 3], np.float64)
        sms = {device.index: device.num_sms for device in devices if device.num_sms > 0}
        common = set(sms.values()).pop() if len(set(sms.values())) == 1 else MISSING
        of_track = np.array([sms.get(t.device, common) for t in tracks] + [MISSING], np.float64)
        found = {
            "blocks_per_sm": np.empty(len(ids), np.float32),
            "occupancy_pct": np.empty(len(ids), np.float32),
        }
        for start in range(0, len(ids), _BLOCK_ROWS):
            some = slice(start, start + _BLOCK_ROWS)
            direct, blocks, occupancy = table[ids[some]].T
            found["blocks_per_sm"][some] = _shares(direct, blocks, of_track[track[some]])
            found["occupancy_pct"][some] = occupancy
        return {name: column for name, column in found.items() if (column >= 0).any()}


def _shares(direct: F64, blocks: F64, sms: F64) -> F64:
    """Return blocks per SM: as stated, else blocks of the grid over SMs, else -1."""
    is_known = (blocks >= 0) & (sms > 0)
    computed = np.where(is_known, blocks / np.where(is_known, sms, 1.0), MISSING)
    return np.where(direct >= 0, direct, computed)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return None


def _number(text: bytes) -> float:
    """Return a number of at least 0, -1 for anything else."""
    value = _json(text) if text else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return MISSING
    return float(value) if 0 <= value < _MAX_VALUE else MISSING  # float() fails on huge integers


def _blocks(text: bytes) -> float:
    """Return the number of blocks of a grid of three integers, -1 for anything else."""
    sizes = _json(text) if text else None
    if not isinstance(sizes, list) or len(sizes) != 3:
        return MISSING
    if not all(
        isinstance(n, int) and not isinstance(n, bool) and 0 < n < _MAX_VALUE for n in sizes
    ):
        return MISSING
    return float(math.prod(sizes))
