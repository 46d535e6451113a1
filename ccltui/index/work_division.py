"""Which files of a job are read, and how they form tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from ccltui.index.index_plan import PlannedFile
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.ingest.load import entry_key
from ccltui.parsers.job import Job
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
