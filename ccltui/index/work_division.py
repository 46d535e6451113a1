"""Which files of a job are read, how they form tasks, and whether a cluster should read them.

The size of the job and what this machine allows decide. An engine reads the files of a plan, and
reports in the order in which they end.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, structs

from ccltui.index.index_state import FileRecord, IndexState, Plan, PlannedFile
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import GrammarError, TraceError, contained
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.ingest.load import entry_key
from ccltui.parsers.job import Job
from ccltui.parsers.machine_limits import address_space, available_memory, workers_for
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.store.column_store import Store

MAX_TASKS: Final = 1000
"""Slurm accepts array indices below 1001 unless a site changes MaxArraySize."""
TASK_TEXT_BYTES: Final = 1 << 30
"""Text of one task: some five seconds of reading, against half a second of starting Python."""


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
    planned: list[PlannedFile] = []
    failed: list[tuple[FoundFile, str]] = []
    for file in files:
        try:
            with contained(file.path):
                planned.append(_planned(file, entry_key(store, file)))
        except TraceError as error:
            failed.append((file, str(error)))
    return planned, failed


def _planned(found: FoundFile, key: str = "") -> PlannedFile:
    other = found.companion
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


ADVICE_CODE: Final = "read_elsewhere"
_LONG_S: Final = 120.0
"""Reading that takes longer is worth the wait for a queue."""
_TEXT_BYTES_PER_S: Final = 200e6  # of one core, with writing the store
_SAMPLED: Final = 3


def with_advice(job: Job, path: str, store: Path | None, jobs: int | None = None) -> Job:
    """Return the job with a note where it should be read by ``ccltui index``.

    Args:
        job: As discovered; nothing is loaded.
        path: The directory as the user named it.
        store: Directory of the store, None for the user's.
        jobs: Worker processes that the user allows.
    """
    reason = _reason(job, store, jobs)
    if reason is None:
        return job
    engine = " --engine slurm" if shutil.which("sbatch") else ""
    options = "" if store is None else f" --store {shlex.quote(str(store))}"
    note = Note(ADVICE_CODE, f"{reason}: ccltui index {shlex.quote(path)}{options}{engine}")
    capture = structs.replace(job.capture, notes=(*job.capture.notes, note))
    return structs.replace(job, capture=capture)


def _reason(job: Job, store: Path | None, jobs: int | None) -> str | None:
    """Return why the job is too large for this machine, None where it is not or is stored."""
    files = job.capture.files
    if not files:
        return None
    planned = [_planned(one) for one in files]
    forms = [(one.size_bytes, one.form) for one in planned]
    largest = max(planned, key=lambda one: one.peak_bytes)
    allowed = min(available_memory(), address_space())
    seconds = sum(one.text_bytes for one in planned) / _TEXT_BYTES_PER_S
    seconds /= workers_for(forms, jobs)
    if largest.peak_bytes > allowed:
        reason = (
            f"reading {largest.path} needs about {largest.peak_bytes / 1e9:.1f} GB of memory, and "
            f"{allowed / 1e9:.1f} GB are allowed here"
        )
    elif seconds > _LONG_S:
        size = sum(one.size_bytes for one in planned) / 1e9
        minutes = math.ceil(seconds / 60)
        reason = f"reading {len(files):,} files ({size:,.1f} GB) takes about {minutes} min here"
    else:
        return None
    return None if _is_stored(job, store) else reason


def _is_stored(job: Job, store: Path | None) -> bool:
    """Whether the store has the first, the middle and the last file, and so probably all."""
    files = job.capture.files
    sample = {
        files[round(part * (len(files) - 1) / (_SAMPLED - 1))].path for part in range(_SAMPLED)
    }
    try:
        place = Store(default_cache_dir() if store is None else store)
    except GrammarError:
        return False
    planned, failed = planned_files([one for one in files if one.path in sample], place)
    return not failed and all(place.load_parts(one.key) is not None for one in planned)


class Work(Struct, frozen=True):
    """What one run of an engine does: the files ``pending`` of ``plan``, by index."""

    state: IndexState
    plan: Plan
    pending: tuple[int, ...]
    found: Sequence[FoundFile]  # as discovered, by index in the plan


class EngineOptions(Struct, frozen=True):
    """Options of all engines; each uses its own."""

    workers: int | None = None  # None: what memory and CPUs, or the site, allow
    ranks_per_task: int | None = None
    site: str | None = None
    sbatch: tuple[str, ...] = ()


class BytesRead(Struct, frozen=True):
    """Progress within one file."""

    path: str
    done_bytes: int


class Message(Struct, frozen=True):
    """One line for the user."""

    text: str


class Computing(Struct, frozen=True):
    """What is computed next of the whole job, once all files are read."""

    what: str
    done: int
    total: int


EngineEvent = BytesRead | FileRecord | Message | Computing


class EngineError(RuntimeError):
    """An engine cannot run here, or refused the work; one line says why."""


class Engine(Protocol):
    """Reads files into the store. Whatever ended stays when it stops."""

    name: str
    reduces: bool
    """Whether it also writes the record of the job, so that the caller does not."""

    def run(self, work: Work, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
        """Read the pending files, yielding what happens; return soon after ``cancelled``.

        Raises:
            EngineError: It cannot start.
            OSError: The state cannot be written.
        """
