"""How far the launch of a kernel reaches over a device: shares that few distinct texts state."""

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

_MOST = 1e12  # what is larger is noise
_ROWS_TOGETHER = 1 << 16  # so that what is computed on the way stays small


class LaunchShapes:
    """Distinct launches by the text of their grid, their blocks an SM and their occupancy."""

    def __init__(self) -> None:
        self._ids: dict[tuple[bytes, bytes, bytes], int] = {}

    def id_of(self, grid: bytes, blocks_per_sm: bytes, occupancy: bytes) -> int:
        """Id of a launch by JSON texts, b"" for what is absent; -1 where all are."""
        key = (grid, blocks_per_sm, occupancy)
        return self._ids.setdefault(key, len(self._ids)) if any(key) else MISSING

    def ids_of(self, events: list[Event]) -> list[int]:
        """Ids of the launches of events."""
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
        """``blocks_per_sm`` and ``occupancy_pct`` of events, where any is stated.

        Where a file states the grid alone, its blocks are divided by the SMs of the device. A
        device that is not listed has as many as all that are, where these agree: a process may
        number the devices that it sees anew.
        """
        stated = [(_number(b), _blocks(g), _number(o)) for g, b, o in self._ids]
        table = np.array([*stated, (MISSING,) * 3], np.float64)
        sms = {device.index: device.num_sms for device in devices if device.num_sms > 0}
        alike = set(sms.values()).pop() if len(set(sms.values())) == 1 else MISSING
        of_track = np.array([sms.get(t.device, alike) for t in tracks] + [MISSING], np.float64)
        found = {
            "blocks_per_sm": np.empty(len(ids), np.float32),
            "occupancy_pct": np.empty(len(ids), np.float32),
        }
        for start in range(0, len(ids), _ROWS_TOGETHER):
            some = slice(start, start + _ROWS_TOGETHER)
            direct, blocks, occupancy = table[ids[some]].T
            found["blocks_per_sm"][some] = _shares(direct, blocks, of_track[track[some]])
            found["occupancy_pct"][some] = occupancy
        return {name: column for name, column in found.items() if (column >= 0).any()}


def _shares(direct: F64, blocks: F64, sms: F64) -> F64:
    """Blocks an SM: as stated, else the blocks of the grid by the SMs, else -1."""
    told = (blocks >= 0) & (sms > 0)
    shared = np.where(told, blocks / np.where(told, sms, 1.0), MISSING)
    return np.where(direct >= 0, direct, shared)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return None


def _number(text: bytes) -> float:
    """A plain number from 0, -1 for anything else."""
    value = _json(text) if text else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return MISSING
    return float(value) if 0 <= value < _MOST else MISSING  # integers of any size compare


def _blocks(text: bytes) -> float:
    """Blocks of a grid of three whole numbers, -1 for anything else."""
    sizes = _json(text) if text else None
    if not isinstance(sizes, list) or len(sizes) != 3:
        return MISSING
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 < n < _MOST for n in sizes):
        return MISSING
    return float(math.prod(sizes))
