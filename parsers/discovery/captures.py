"""Find the rank of each file, and group traces into captures: recordings that share a timeline.

The rank is what the file states, else what the user's map says, else a number of its name. Traces
that lie in one folder but are not ranks of one recording, by their times, world sizes and ranks,
are captures of their own.

vLLM names a trace ``dp0_pp0_tp1_dcp0_ep1_rank1.<time>.pt.trace.json.gz``, SGLang
``<time>-TP-1-DP-0-PP-0-EP-1-DECODE.trace.json.gz``. Where replicas of data parallelism are jobs of
their own, each numbers its ranks from 0: the replica then tells equal numbers apart.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.columns import Note, RankSource
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.format import Source
from ccltui.parsers.found_files import Capture, FoundFile
from ccltui.parsers.safe_text import listed, natural_key, printable

_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9])(dp|pp|tp|ep|cp|dcp|pcp)(-?)([0-9]{1,6})(?![A-Za-z0-9])", re.IGNORECASE
)
_STAGE: Final = re.compile(r"(?<![A-Za-z])(EXTEND|PREFILL|DECODE)(?![A-Za-z])", re.IGNORECASE)


class Placement(Struct, frozen=True):
    """What the name of a trace states of its process.

    Attributes:
        dp: Replica.
        pp: Stage of the pipeline.
        tp: Rank within tensor parallelism.
        prefix: What comes before it: in SGLang the session that recorded.
        stage: ``EXTEND`` or ``DECODE`` where a session records each by itself; "" otherwise.
    """

    dp: int
    pp: int
    tp: int
    prefix: str = ""
    stage: str = ""


# The names of one directory are asked for several times, by every rule that separates captures.
@lru_cache(maxsize=16_384)
def placement_in(path: str) -> Placement | None:
    """Return the place that the name of a file states, None where it states none."""
    name = path.rpartition("/")[2]
    for chain in reversed(_chains(name)):
        numbers = {token[1].lower(): int(token[3]) for token in chain}
        of_sglang = any(token[0].startswith("TP-") for token in chain)
        is_full = {"dp", "pp", "tp"} <= numbers.keys()
        rest = name[chain[-1].end() :]
        if is_full or (of_sglang and (len(chain) > 1 or ".trace.json" in rest)):
            stage = _STAGE.search(rest)
            return Placement(
                numbers.get("dp", 0),
                numbers.get("pp", 0),
                numbers["tp"],
                name[: chain[0].start()],
                stage[1].upper() if stage else "",
            )
    return None


def _chains(name: str) -> list[list[re.Match[str]]]:
    """Return the runs of tokens that one character separates."""
    chains: list[list[re.Match[str]]] = []
    for token in _TOKEN.finditer(name):
        if chains and token.start() - chains[-1][-1].end() == 1:
            chains[-1].append(token)
        else:
            chains.append([token])
    return chains


def with_placed_ranks(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Return the files; those without a rank have that of their place within the replica.

    Ranks of tensor parallelism follow one another, and stages of the pipeline come one after the
    other. ``tp2`` may also be a degree: numbers count as places where one of the folder is 0.
    """
    tables: defaultdict[tuple[str, str], list[tuple[int, Placement]]] = defaultdict(list)
    for place, file in enumerate(files):
        if file.format.is_trace and file.format.rank_in_name and file.duplicate_of is None:
            found = placement_in(file.path)
            if found is not None:
                tables[file.path.rpartition("/")[0], found.stage].append((place, found))
    numbered = list(files)
    for table in tables.values():
        width = 1 + max(found.tp for _, found in table)
        if all(found.dp and found.pp and found.tp for _, found in table):
            continue
        for place, found in table:
            file, rank = files[place], found.pp * width + found.tp
            if file.rank is None and (file.world_size is None or rank < file.world_size):
                numbered[place] = replace(file, rank=rank, rank_source="file name")
    return numbered


def stage_in(path: str) -> str:
    """Return the stage that the name of a file states, "" for none."""
    found = placement_in(path)
    return found.stage if found else ""


def stage_of(files: Sequence[FoundFile]) -> str:
    """Return the stage that the names of all files state, "" where they do not agree."""
    stages = {stage_in(file.path) for file in files}
    return stages.pop() if len(stages) == 1 else ""


def by_stage(files: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Separate what was recorded of prefill and of decode; other files stay with the largest."""
    parts: defaultdict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        parts[stage_of([file])].append(file)
    rest = parts.pop("", [])
    if len(parts) < 2:
        return [list(files)]
    stages = [parts[stage] for stage in sorted(parts)]
    max(stages, key=len).extend(rest)
    return stages


def claim_of(file: FoundFile) -> tuple[int, int | None]:
    """Return the replica and the rank that a file claims."""
    found = placement_in(file.path)
    return (found.dp if found else 0, file.rank)


def by_session(files: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Separate sessions of SGLang, if one rank of one replica occurs again and sessions tell why.

    Not otherwise: older releases gave each rank a session of its own.
    """
    ranked = [file for file in files if file.rank is not None]
    if not _repeats(ranked, claim_of):
        return [list(files)]
    parts: defaultdict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        found = placement_in(file.path)
        if found is None:
            return [list(files)]
        parts[found.prefix].append(file)
    sessions = [parts[prefix] for prefix in sorted(parts)]
    return [list(files)] if any(_repeats(one, claim_of) for one in sessions) else sessions


def with_replicas(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Return the files of a recording; where replicas repeat ranks, each has ranks of its own.

    They follow one another in the order of the replicas. Files whose names do not tell every
    repeated rank apart are returned as they are.
    """
    ranked = [file for file in files if file.rank is not None]
    replicas = sorted({claim_of(file)[0] for file in ranked})
    if (
        len(replicas) < 2
        or not _repeats(ranked, lambda file: file.rank)
        or _repeats(ranked, claim_of)
        or any(placement_in(file.path) is None for file in ranked)
    ):
        return list(files)
    size = max(max(file.world_size or 0, (file.rank or 0) + 1) for file in ranked)
    first = {dp: size * place for place, dp in enumerate(replicas)}
    return [
        file
        if file.rank is None
        else replace(
            file,
            rank=file.rank + first[claim_of(file)[0]],
            first_rank=first[claim_of(file)[0]],
            replica=f"dp{claim_of(file)[0]}",
            world_size=size * len(replicas),
        )
        for file in files
    ]


def _repeats(files: Sequence[FoundFile], claim: Callable[[FoundFile], Hashable]) -> bool:
    counts = Counter(claim(file) for file in files)
    return any(count > 1 for count in counts.values())


def is_of_replica(path: str, stated: int, named: int) -> bool:
    """Whether a name states a rank within a replica, and the file the same rank in the job."""
    found = placement_in(path)
    return found is not None and found.dp > 0 < stated - named and (stated - named) % found.dp == 0


MAX_RANK = 999_999

_RANK = re.compile(r"(?<![a-z])rank[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)
# local_rank0, tp_rank1 and node_rank2 number ranks within a part of the job.
_PART_OF_JOB = re.compile(r"(?:^|[^a-z])(?:local|node|[cdemtp]p)[-_]?$", re.IGNORECASE)
_KINETO_TRACE = re.compile(r"kineto_trace_(\d{1,6})(?!\d)", re.IGNORECASE)
_BEFORE_SUFFIX = re.compile(r"_(\d{1,6})\.(?:json|pftrace)", re.IGNORECASE)
_DUMP = re.compile(r"_dump_(\d{1,6})(?!\d)", re.IGNORECASE)  # of flight recorders, by Megatron
_RANK_FOLDER = re.compile(r"rank[-_]?(\d{1,6})", re.IGNORECASE)


def rank_in_name(path: str) -> int | None:
    """Rank that a path states: in the file's name, else in the nearest folder ``rank_N``."""
    folders, _, name = path.rpartition("/")
    for pattern in (_RANK, _KINETO_TRACE, _BEFORE_SUFFIX, _DUMP):
        for match in pattern.finditer(name):
            if not _PART_OF_JOB.search(name, 0, match.start()):
                return int(match.group(1))
    for folder in reversed(folders.split("/")):
        number = _RANK_FOLDER.fullmatch(folder)
        if number:
            return int(number.group(1))
    return None


def is_rank_folder(name: str) -> bool:
    """True for ``rank_3``, ``rank-3`` and ``rank3``: one rank of a job, not a job of its own."""
    return _RANK_FOLDER.fullmatch(name) is not None


def parse_rank_map(text: str) -> Mapping[str, int]:
    """File -> rank from ``0=a.json,1=b.json``, or from ``@FILE`` with lines ``0 a.json``.

    Raises GrammarError that names the item, or the line of the file.
    """
    if text.startswith("@"):
        return _rank_map_file(Path(text[1:]))
    ranks: dict[str, int] = {}
    for item in text.split(","):
        rank, equals, name = item.partition("=")
        if not equals or not name.strip():
            raise GrammarError(f"{item!r} is not RANK=FILE (as in 0=a.json,1=b.json)")
        _put(ranks, rank.strip(), name.strip(), None, None)
    return ranks


def _rank_map_file(path: Path) -> Mapping[str, int]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise GrammarError(f"the rank map cannot be read: {why}", path=path) from error
    ranks: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        rank, _, name = line.strip().partition(" ")
        if not name.strip():
            raise GrammarError(f"{line.strip()!r} is not `RANK FILE`", path=path, line=number)
        _put(ranks, rank, name.strip(), path, number)
    return ranks


def _put(ranks: dict[str, int], rank: str, name: str, path: Path | None, line: int | None) -> None:
    if not re.fullmatch(r"[0-9]{1,7}", rank) or int(rank) > MAX_RANK:
        raise GrammarError(f"{rank!r} is not a rank (0 to {MAX_RANK:,})", path=path, line=line)
    if ranks.get(name, int(rank)) != int(rank):
        raise GrammarError(
            f"{name} is given two ranks, {ranks[name]} and {rank}", path=path, line=line
        )
    ranks[name] = int(rank)


def mapped_ranks(rank_map: Mapping[str, int], paths: Mapping[str, str]) -> Mapping[str, int]:
    """Relative path -> rank for every trace that ``rank_map`` names.

    ``paths``: relative path -> absolute path of each trace. A key may be a relative path, an
    absolute one, or a bare file name, which then means every trace of that name. Raises
    GrammarError for a key that names none, with near names.
    """
    ranks: dict[str, int] = {}
    for key, rank in rank_map.items():
        meant = [path for path, real in paths.items() if _is_meant(key, path, real)]
        if not meant:
            raise GrammarError(_nothing_named(key, list(paths)))
        ranks.update(dict.fromkeys(meant, rank))
    return ranks


def _is_meant(key: str, path: str, real_path: str) -> bool:
    if "/" not in key:
        return path.rpartition("/")[2] == key
    return os.path.normpath(key) in (path, real_path)


def _nothing_named(key: str, paths: Sequence[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  (for the message alone)

    names = sorted({path.rpartition("/")[2] for path in paths} | set(paths))
    near = [printable(name) for name in get_close_matches(key, names, 3, 0.5)]
    hint = f"; did you mean {listed(near)}?" if near else ""
    return f"the rank map names {printable(key)}, which is no trace here{hint}"


def rank_of(
    stated: int | None,
    mapped: int | None,
    path: str,
    aliases: Sequence[str],
    world_size: int | None,
) -> tuple[int | None, RankSource]:
    """Rank of a trace and where it is from; (None, "none") where it is unknown.

    ``aliases`` are further names of the same file. A number in a name that cannot be a rank of
    ``world_size`` is no rank.
    """
    if stated is not None:
        return stated, "distributedInfo"
    if mapped is not None:
        return mapped, "rank map"
    for name in (path, *aliases):
        rank = rank_in_name(name)
        if rank is not None and (world_size is None or rank < world_size):
            return rank, "file name"
    return None, "none"


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
    clearly later; and where names state that one is of prefill and another of decode. What a file
    does not state separates nothing. Replicas of a server that number their ranks alike are one
    recording.
    """
    parts = [list(files)]
    for separate in (
        by_stage,
        _by_world_size,
        _far_apart,
        _silent_between,
        _rank_again,
        _replica_again,
        by_session,
    ):
        parts = [part for whole in parts for part in separate(whole)]
    return [with_replicas(part) for part in parts]


def recording_name(files: Sequence[FoundFile], folder: str, siblings: Sequence[str]) -> str:
    """Return a name for one of several recordings of a folder, different from ``siblings``.

    It is the stage of serving where names state one, else the name of the only file, else the
    start of the recording, else its world size.
    """
    stage = stage_of(files)
    if stage and (staged := f"{folder}/{stage}" if folder else stage) not in siblings:
        return staged
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
    return _claimed_again(files, lambda file: file.rank)


def _replica_again(files: Sequence[FoundFile]) -> list[list[FoundFile]]:
    """Separate where a rank of the same replica is claimed again, likewise."""
    return _claimed_again(files, claim_of)


def _claimed_again(
    files: Sequence[FoundFile], claim: Callable[[FoundFile], Hashable]
) -> list[list[FoundFile]]:
    claims = [claim(file) for file in files if file.rank is not None]
    if len(set(claims)) == len(claims) or any(file.start_ns is None for file in files):
        return [list(files)]

    def breaks(before: Sequence[FoundFile], after: FoundFile) -> bool:
        wanted = claim(after)
        return after.rank is not None and any(claim(file) == wanted for file in before)

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
