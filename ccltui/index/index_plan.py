"""What an index run reads: the files of a job, the entry of each, and how they form tasks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.format import Companion
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.ingest.load import entry_key
from ccltui.parsers.job import Job
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.system.machine_limits import peak_bytes

PLAN_VERSION: Final = 1
MAX_TASKS: Final = 1000
"""Slurm accepts array indices below 1001 unless a site changes MaxArraySize."""
TASK_TEXT_BYTES: Final = 1 << 30
"""Text of one task: some five seconds of reading, against half a second of starting Python."""
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


def files_to_index(job: Job) -> tuple[FoundFile, ...]:
    """Return the files of the opened capture, then those of nsys that may replace it.

    Kineto traces without device work are replaced when the job is loaded, which is not known yet.
    """
    files = job.capture.files
    others = [one for one in job.discovery.captures if one.source == "nsys"]
    if job.profile_mode != "auto" or job.capture.source != "torch" or not others:
        return files
    return (*files, *job.discovery.choose(source="nsys").files)


def planned_files(
    files: Sequence[FoundFile], store: Store
) -> tuple[list[PlannedFile], list[tuple[FoundFile, str]]]:
    """Return files with the keys of their entries; those that cannot be opened, with reasons."""
    found = [_planned(one, store) for one in files]
    planned = [one for one in found if isinstance(one, PlannedFile)]
    failed = [
        (file, one)
        for file, one in zip(files, found, strict=True)
        if not isinstance(one, PlannedFile)
    ]
    return planned, failed


def _planned(found: FoundFile, store: Store) -> PlannedFile | str:
    other = found.companion
    try:
        with contained(found.path):
            key = entry_key(store, found)
    except TraceError as error:
        return str(error)
    return PlannedFile(
        found.path,
        os.fsencode(found.real_path),
        found.kind,
        found.size_bytes,
        found.format.memory_form or found.compression,
        key,
        found.rank,
        "" if other is None else other.path,
        b"" if other is None else os.fsencode(other.real_path),
    )


def tasks_of(
    files: Sequence[PlannedFile], chosen: Sequence[int], ranks_per_task: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """Divide the files ``chosen`` by index into tasks of similar size, at most `MAX_TASKS`.

    Args:
        files: The files of a plan.
        chosen: Indices of those to divide.
        ranks_per_task: Files of one task; None: as many as hold `TASK_TEXT_BYTES` of text.

    Returns:
        Indices of the files of each task, in the order of ``chosen``.
    """
    most_files = max(ranks_per_task or len(chosen), -(-len(chosen) // MAX_TASKS), 1)
    total = sum(files[index].text_bytes for index in chosen)
    # A task closes when the next file would not fit, so up to half of each may be left free.
    most_bytes = None if ranks_per_task else max(TASK_TEXT_BYTES, 2 * -(-total // MAX_TASKS))
    tasks: list[tuple[int, ...]] = []
    current: list[int] = []
    held = 0
    for index in chosen:
        size = files[index].text_bytes
        is_full = len(current) >= most_files or (
            most_bytes is not None and held + size > most_bytes
        )
        if current and is_full:
            tasks.append(tuple(current))
            current, held = [], 0
        current.append(index)
        held += size
    return (*tasks, tuple(current)) if current else tuple(tasks)
