"""The plan of an index run: files of a job, the entry of each, and lists of them for tasks.

Each task of an array imports this, so it imports neither discovery nor metrics.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from ccltui.parsers.format import Companion
from ccltui.parsers.system.machine_limits import peak_bytes

PLAN_VERSION: Final = 1
_TEXT_BYTES_PER_BYTE: Final = {"none": 1, "gzip": 12, "zstd": 12, "export": 1}


class PlannedFile(msgspec.Struct, frozen=True):
    """One file to read; paths are bytes, as they need not be text."""

    path: str  # relative, safe to print
    real_path: bytes
    kind: str
    size_bytes: int
    form: str  # its compression, or "export"
    key: str  # of its entry in the store
    rank: int | None = None
    companion_path: str = ""
    companion_real_path: bytes = b""

    @property
    def text_bytes(self) -> int:
        """Estimated bytes of uncompressed text."""
        return self.size_bytes * _TEXT_BYTES_PER_BYTE[self.form]

    @property
    def peak_bytes(self) -> float:
        """Estimated memory of the process that reads it."""
        return peak_bytes(self.size_bytes, self.form)

    def source(self) -> Path:
        """Return the path to open."""
        return Path(os.fsdecode(self.real_path))

    def companion(self) -> Companion | None:
        """Return the file that adds to its columns."""
        if not self.companion_real_path:
            return None
        return Companion(self.companion_path, os.fsdecode(self.companion_real_path))


class Plan(msgspec.Struct, frozen=True):
    """The files of one job, and lists of their indices: one for each task of an array."""

    path: bytes  # absolute, of the directory
    store: bytes
    files: tuple[PlannedFile, ...]
    tasks: tuple[tuple[int, ...], ...]
    open_options: dict[str, str | int | None] = {}
    version: int = PLAN_VERSION

    @property
    def digest(self) -> str:
        """Name of what the plan covers, whatever its tasks: equal where the same files are read."""
        keys = "\n".join(sorted(planned.key for planned in self.files))
        return hashlib.blake2b(keys.encode(), digest_size=16).hexdigest()

    def directory(self) -> Path:
        """Return the directory of the traces."""
        return Path(os.fsdecode(self.path))

    def store_path(self) -> Path:
        """Return the directory of the store."""
        return Path(os.fsdecode(self.store))
