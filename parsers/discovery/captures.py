"""Group traces into captures: recordings that belong on one timeline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec

from ccltui.parsers.columns import Note
from ccltui.parsers.discovery.rank_identity import is_rank_folder
from ccltui.parsers.discovery.unrelated import recording_name, recordings
from ccltui.parsers.format import Source
from ccltui.parsers.found_files import Capture, FoundFile
from ccltui.parsers.names import listed, natural_key

_ITERATION = re.compile(r"iteration[_-]?([0-9]{1,12})", re.IGNORECASE)

Folder = tuple[str, ...]


def iteration_of(path: str) -> int | None:
    """Return the number of the nearest folder ``iteration_N`` above a file."""
    for folder in reversed(path.split("/")[:-1]):
        match = _ITERATION.fullmatch(folder)
        if match:
            return int(match.group(1))
    return None


def captures_of(traces: Sequence[FoundFile], source: Source = "torch") -> tuple[Capture, ...]:
    """Return the captures of ``traces`` of one profiler.

    They are sorted by iteration, then in natural order of names. Every ``iteration_N`` is a
    capture of its own; all other traces are one. Where two folders claim one rank, or state
    different world sizes, they are different jobs: each is a capture. Folders named after a rank
    are not separated. Traces of one folder are separated into `recordings`.
    """
    by_iteration: dict[int | None, list[FoundFile]] = defaultdict(list)
    for trace in traces:
        by_iteration[iteration_of(trace.path)].append(trace)
    parts = [
        (iteration, part, len(separate))
        for iteration, files in by_iteration.items()
        for separate in [_separate_jobs(files)]
        for part in separate
    ]
    fullest = max((_num_ranks(part) for _, part, _ in parts), default=0)
    captures: list[Capture] = []
    for iteration, part, siblings in parts:
        name = _name(iteration, part, siblings, alone=len(parts) == 1)
        found = recordings(part)
        for files in found:
            own = name
            if len(found) > 1:
                own = recording_name(files, name, [one.name for one in captures])
            captures.append(
                msgspec.structs.replace(
                    _capture(own, iteration, files, fullest),
                    source=source,
                    is_unrelated=len(found) > 1,
                )
            )
    return tuple(sorted(captures, key=_order))


def _order(capture: Capture) -> tuple[int, object]:
    return (-1 if capture.iteration is None else capture.iteration, natural_key(capture.name))


def _folder(trace: FoundFile) -> Folder:
    folders = trace.path.split("/")[:-1]
    return tuple(folder for folder in folders if not is_rank_folder(folder))


def _common_folder(files: Iterable[FoundFile]) -> Folder:
    levels = zip(*(_folder(file) for file in files), strict=False)
    return tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))


def _separate_jobs(files: list[FoundFile]) -> list[list[FoundFile]]:
    if not _folders_clash(files):
        return [files]
    depth = len(_common_folder(files))
    parts: dict[Folder, list[FoundFile]] = defaultdict(list)
    for file in files:
        parts[_folder(file)[depth : depth + 1]].append(file)
    return [job for _, part in sorted(parts.items()) for job in _separate_jobs(part)]


def _folders_clash(files: Iterable[FoundFile]) -> bool:
    folders_of_rank: dict[int, set[Folder]] = defaultdict(set)
    world_sizes: set[int] = set()
    stating: set[Folder] = set()
    for file in files:
        if file.rank is not None:
            folders_of_rank[file.rank].add(_folder(file))
        if file.world_size is not None:
            world_sizes.add(file.world_size)
            stating.add(_folder(file))
    one_rank_twice = any(len(folders) > 1 for folders in folders_of_rank.values())
    return one_rank_twice or (len(world_sizes) > 1 and len(stating) > 1)


def _name(iteration: int | None, files: list[FoundFile], siblings: int, *, alone: bool) -> str:
    if iteration is not None and siblings == 1:
        return f"iteration_{iteration}"
    if alone:
        return ""
    return "/".join(_common_folder(files)) or "."


def _num_ranks(files: Iterable[FoundFile]) -> int:
    return len({file.path if file.rank is None else file.rank for file in files})


def _capture(name: str, iteration: int | None, files: list[FoundFile], fullest: int) -> Capture:
    ordered = sorted(files, key=lambda f: (f.rank is None, f.rank or 0, natural_key(f.path)))
    members = tuple(msgspec.structs.replace(file, capture=name) for file in ordered)
    ranks = tuple(sorted({file.rank for file in members if file.rank is not None}))
    world_size = max((f.world_size for f in members if f.world_size is not None), default=None)
    complete = _num_ranks(members) >= fullest
    if world_size is not None:
        complete = set(range(world_size)) <= set(ranks) if world_size <= len(ranks) else False
    notes = (*_conflicts(members), *_world_size_conflict(members), *_without_rank(members))
    return Capture(name, iteration, members, ranks, world_size, complete, notes)


def _conflicts(files: Iterable[FoundFile]) -> list[Note]:
    claims: Mapping[int, list[str]] = defaultdict(list)
    for file in files:
        if file.rank is not None:
            claims[file.rank].append(file.path)
    return [
        Note("rank_conflict", f"rank {rank} is claimed by {listed(paths)}", count=len(paths))
        for rank, paths in sorted(claims.items())
        if len(paths) > 1
    ]


def _world_size_conflict(files: Iterable[FoundFile]) -> list[Note]:
    sizes: Mapping[int, list[str]] = defaultdict(list)
    for file in files:
        if file.world_size is not None:
            sizes[file.world_size].append(file.path)
    if len(sizes) < 2:
        return []
    claims = [f"{size} in {listed(paths, 3)}" for size, paths in sorted(sizes.items())]
    return [Note("world_size_conflict", f"the world size is {', but '.join(claims)}")]


def _without_rank(files: Iterable[FoundFile]) -> list[Note]:
    # The ranks of a file that may hold several are only known to its reader.
    paths = [file.path for file in files if file.rank is None and file.format.has_one_rank]
    if not paths:
        return []
    verb = "states" if len(paths) == 1 else "state"
    message = f"{listed(paths)} {verb} no rank; a rank map can give one"
    return [Note("rank_unknown", message, count=len(paths))]
