"""Places of serving processes in their job, by the names of their traces.

vLLM names a trace ``dp0_pp0_tp1_dcp0_ep1_rank1.<time>.pt.trace.json.gz``, SGLang
``<time>-TP-1-DP-0-PP-0-EP-1-DECODE.trace.json.gz``. Where replicas of data parallelism are jobs of
their own, each numbers its ranks from 0: the replica then tells equal numbers apart.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.found_files import FoundFile

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
