"""Separate traces that lie in one folder but are not ranks of one recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from ccltui.parsers.found_files import FoundFile

_SECOND: Final = 1_000_000_000
_MAX_DISTANCE_NS: Final = 3600 * _SECOND
"""Ranks of one job begin to record within minutes; clocks of hosts differ by less."""
_MAX_SILENCE_NS: Final = 60 * _SECOND
"""Longest time between the end of one trace and the start of the next of one recording."""
_CLEAR_RATIO: Final = 5
"""Recordings that repeat a rank are this many times as far apart as their own ranks."""
_LEAST_GAP_NS: Final = _SECOND


def recordings(files: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Return the recordings that the files of one folder or iteration belong to.

    Files are of different recordings where they state different world sizes, where one begins an
    hour after the others and they are not distinct ranks of one world, where none of them states a
    rank and one begins a minute after the others ended, or where they claim a rank again and begin
    clearly later. What a file does not state separates nothing.
    """
    parts = _by_world_size(files)
    for separate in (_far_apart, _silent_between, _rank_again):
        parts = [part for whole in parts for part in separate(whole)]
    return parts


def recording_name(files: Sequence[FoundFile], folder: str, siblings: Sequence[str]) -> str:
    """Return a name for one of several recordings of a folder, different from ``siblings``.

    It is the name of the only file, else the start of the recording, else its world size.
    """
    name = files[0].path if len(files) == 1 else _described(files, folder)
    return name if name not in siblings else f"{name} ({len(siblings) + 1})"


def _described(files: Sequence[FoundFile], folder: str) -> str:
    starts = [file.start_ns for file in files if file.start_ns is not None]
    sizes = {file.world_size for file in files if file.world_size is not None}
    if starts:
        moment = datetime.fromtimestamp(min(starts) // _SECOND, tz=UTC)
        what = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    else:
        what = f"world size {sizes.pop()}" if len(sizes) == 1 else f"{len(files)} files"
    return f"{folder}/{what}" if folder else what


def _by_world_size(files: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Separate by stated world size; files that state none stay with the largest part.

    Two sizes separate only where the files of each are a whole job: a single file with another
    size among the ranks of a job is a contradiction of that file.
    """
    sizes = sorted({file.world_size for file in files if file.world_size is not None})
    parts = [[file for file in files if file.world_size == size] for size in sizes]
    if len(parts) < 2 or not all(map(_claims_whole_job, parts)):
        return [list(files)]
    rest = [file for file in files if file.world_size is None]
    max(parts, key=len).extend(rest)
    return parts


def _claims_whole_job(files: Sequence[FoundFile]) -> bool:
    ranks = {file.rank for file in files}
    return all(rank in ranks for rank in range(files[0].world_size or 0))


def _far_apart(files: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Separate files that begin an hour apart; distinct ranks of one world are not separated.

    A clock that was never set is years off, and its host is a part of the job all the same.
    """
    ranks = {file.rank for file in files}
    if None not in ranks and len(ranks) == len(files) and _one_world(files):
        return [list(files)]

    def breaks(before: Sequence[FoundFile], after: FoundFile) -> bool:
        return _start(after) - _start(before[-1]) > _MAX_DISTANCE_NS

    return _split(files, breaks)


def _one_world(files: Sequence[FoundFile]) -> bool:
    return len({file.world_size for file in files}) == 1 and files[0].world_size is not None


def _silent_between(files: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Separate files without ranks whose times do not meet."""
    if any(file.rank is not None or file.end_ns is None for file in files):
        return [list(files)]

    def breaks(before: Sequence[FoundFile], after: FoundFile) -> bool:
        return _start(after) - max(file.end_ns or 0 for file in before) > _MAX_SILENCE_NS

    return _split(files, breaks)


def _rank_again(files: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Separate where a rank is claimed again, if the gaps between the parts are clear."""
    ranks = [file.rank for file in files if file.rank is not None]
    if len(set(ranks)) == len(ranks) or any(file.start_ns is None for file in files):
        return [list(files)]

    def breaks(before: Sequence[FoundFile], after: FoundFile) -> bool:
        return after.rank is not None and any(file.rank == after.rank for file in before)

    parts = _split(files, breaks)
    if len(parts) < 2:
        return parts
    spread = max(_start(part[-1]) - _start(part[0]) for part in parts)
    gaps = [_start(after[0]) - _start(before[-1]) for before, after in pairwise(parts)]
    is_clear = min(gaps) >= max(_LEAST_GAP_NS, _CLEAR_RATIO * spread)
    return parts if is_clear else [list(files)]


def _split(
    files: Sequence[FoundFile], breaks: Callable[[Sequence[FoundFile], FoundFile], bool]
) -> list[list[FoundFile]]:
    """Split files in order of their starts; those of unknown start are then a part of their own."""
    ordered = sorted((file for file in files if file.start_ns is not None), key=_start)
    if len(ordered) < 2:
        return [list(files)]
    parts = [[ordered[0]]]
    for file in ordered[1:]:
        if breaks(parts[-1], file):
            parts.append([])
        parts[-1].append(file)
    if len(parts) == 1:
        return [list(files)]
    undated = [file for file in files if file.start_ns is None]
    return [*parts, undated] if undated else parts


def _start(file: FoundFile) -> int:
    return file.start_ns or 0
