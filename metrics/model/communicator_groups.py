"""Identify the communicators of a job across ranks.

A group is identified by its sorted global ranks and its description. Its name is a label of one
process: "13" on rank 0 and on rank 2 may be different groups. Names only separate several groups
of the same ranks with the same description.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct, structs

from ccltui.parsers.array_types import I32
from ccltui.parsers.columns import MISSING, ProcessGroup, RankTrace

Ranks = tuple[int, ...]

WORLD_NAMES: Final = frozenset({"default_pg", "world", "world_group"})
"""Descriptions, in lower case, of the group of all ranks."""

Key = tuple[int, str]
"""Number of the ranks of a group among those of the job, and its description."""

Identity = tuple[int, str, str]
"""The key of a group, and what separates it from others of the same key."""


class CommGroup(Struct, frozen=True):
    """One communicator of the job.

    Attributes:
        ranks: sorted global ranks; empty where no file states them, and such a group is never
            shared between ranks.
        name: name in the process that created it.
        description: description that the framework gave it.
        dim: parallel dimension: dp, tp, pp, ep, cp, world or unknown.
        mode: rule that determined ``dim``: process_group, rank_grid or unknown.
        label: name to show, unique in the job.
        axis: part of the dimension, such as dp_shard of dp.
        size: number of ranks, -1 where unknown.
        implied: whether the group was inferred from streams because no file names it.
    """

    ranks: Ranks
    name: str
    description: str
    dim: str = "unknown"
    mode: str = "unknown"
    label: str = ""
    axis: str = ""
    size: int = MISSING
    implied: bool = False


class GroupTable(Struct, frozen=True):
    """All groups, and by rank label the index into them of each of its process groups."""

    groups: tuple[CommGroup, ...]
    index: Mapping[str, I32]


def group_table(traces: Sequence[RankTrace], world_size: int | None) -> GroupTable:
    """Merge the process groups of all ranks; their dimension is still unknown."""
    numbers = _RankNumbers(world_size)
    tables = {
        trace.label: [numbers.resolve(group) for group in trace.process_groups] for trace in traces
    }
    by_name = _keys_with_shared_names(tables)
    identities: dict[Identity, int] = {}
    first: list[ProcessGroup] = []
    index: dict[str, I32] = {}
    for label, table in tables.items():
        ids = []
        for known, identity in zip(table, _identities(label, table, by_name), strict=True):
            if identity not in identities:
                identities[identity] = len(first)
                first.append(known.group)
            ids.append(identities[identity])
        index[label] = np.array(ids, np.int32)
    return GroupTable(_labelled(first), index)


def world_of_groups(traces: Sequence[RankTrace]) -> int | None:
    """Return the size of the group of all ranks, None where no file lists it."""
    sizes = [
        len(group.ranks) or group.size
        for trace in traces
        for group in trace.process_groups
        if group.description.lower() in WORLD_NAMES
    ]
    return max((size for size in sizes if size > 0), default=None)


def relabelled(groups: Sequence[CommGroup]) -> tuple[CommGroup, ...]:
    """Return the groups with labels that are unique in the job."""
    labels = [_label(group) for group in groups]
    repeated = {label for label, count in Counter(labels).items() if count > 1}
    seen: Counter[str] = Counter()
    unique = []
    for group, label in zip(groups, labels, strict=True):
        seen[label] += 1
        text = f"{label} #{seen[label]}" if label in repeated else label
        unique.append(structs.replace(group, label=text))
    return tuple(unique)


def format_ranks(ranks: Sequence[int]) -> str:
    """Format ranks briefly: "0-7", "0,4,9", "0-12:4" for four ranks that are 4 apart."""
    if not ranks:
        return "ranks unknown"
    strides = {b - a for a, b in itertools.pairwise(ranks)}
    if len(ranks) < 3 or len(strides) != 1:
        return ",".join(str(rank) for rank in ranks)
    stride = strides.pop()
    return f"{ranks[0]}-{ranks[-1]}" + ("" if stride == 1 else f":{stride}")


class _NumberedGroup(NamedTuple):
    """A group of a rank with sorted ranks; ``key`` compares it without a walk over its ranks."""

    group: ProcessGroup
    key: Key


class _RankNumbers:
    """Number the sets of ranks of a job, so that each is held and hashed once.

    Ten thousand ranks that each list all ranks would otherwise hold 10^8 numbers.
    """

    def __init__(self, world_size: int | None) -> None:
        self._world_size = world_size
        self._numbers: dict[Ranks, int] = {}
        self._distinct: list[Ranks] = []
        self._world_number: int | None = None

    def resolve(self, group: ProcessGroup) -> _NumberedGroup:
        """Sort the ranks of a group; one of the size of the world that lists none has all."""
        number = self._number(group)
        ranks = self._distinct[number]
        same = ProcessGroup(
            group.name, group.description, ranks, len(ranks) or group.size, group.backend
        )
        return _NumberedGroup(same, (number, group.description))

    def _number(self, group: ProcessGroup) -> int:
        if group.ranks or self._world_size is None or group.size != self._world_size:
            return self._number_of(tuple(sorted(set(group.ranks))))
        if self._world_number is None:
            self._world_number = self._number_of(tuple(range(self._world_size)))
        return self._world_number

    def _number_of(self, ranks: Ranks) -> int:
        number = self._numbers.setdefault(ranks, len(self._distinct))
        if number == len(self._distinct):
            self._distinct.append(ranks)
        return number


def _names_by_key(table: Sequence[_NumberedGroup]) -> dict[Key, list[str]]:
    names: defaultdict[Key, list[str]] = defaultdict(list)
    for group, key in table:
        if group.name not in names[key]:
            names[key].append(group.name)
    return names


def _keys_with_shared_names(tables: Mapping[str, Sequence[_NumberedGroup]]) -> set[Key]:
    """Keys with several names that are the same on all ranks, so that names identify groups."""
    all_names: defaultdict[Key, set[str]] = defaultdict(set)
    most: Counter[Key] = Counter()
    for table in tables.values():
        for key, names in _names_by_key(table).items():
            all_names[key].update(names)
            most[key] = max(most[key], len(names))
    return {key for key, names in all_names.items() if 1 < len(names) == most[key]}


def _identities(label: str, table: Sequence[_NumberedGroup], by_name: set[Key]) -> list[Identity]:
    names = _names_by_key(table)
    identities = []
    for group, key in table:
        if not group.ranks:
            part = f"{label}\0{group.name}\0{group.size}"
        elif key in by_name:
            part = f"name\0{group.name}"
        else:
            part = f"ordinal\0{names[key].index(group.name)}"
        identities.append((*key, part))
    return identities


def _labelled(groups: Sequence[ProcessGroup]) -> tuple[CommGroup, ...]:
    return relabelled([CommGroup(g.ranks, g.name, g.description, size=g.size) for g in groups])


def _label(group: CommGroup) -> str:
    known = group.dim not in ("unknown", "world")
    described = group.description if group.description not in ("", "undefined") else ""
    title = (group.axis or group.dim) if known else described or f"group {group.name}".strip()
    return f"{title} {format_ranks(group.ranks)}"
