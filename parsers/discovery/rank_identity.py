"""Find the rank of a file: what it states, then the user's map, then its name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ccltui.parsers.columns import RankSource
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.names import listed, printable

MAX_RANK = 999_999

_RANK = re.compile(r"(?<![a-z])rank[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)
# local_rank0, tp_rank1 and node_rank2 number ranks within a part of the job.
_PART_OF_JOB = re.compile(r"(?:^|[^a-z])(?:local|node|[cdemtp]p)[-_]?$", re.IGNORECASE)
_KINETO_TRACE = re.compile(r"kineto_trace_(\d{1,6})(?!\d)", re.IGNORECASE)
_BEFORE_SUFFIX = re.compile(r"_(\d{1,6})\.json", re.IGNORECASE)
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
