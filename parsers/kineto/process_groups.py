"""Parse process groups: rank lists in strings, abbreviated lists, the ``pg_config`` table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ccltui.parsers.array_types import I32
from ccltui.parsers.columns import MISSING, ProcessGroup
from ccltui.parsers.window import MOST_RANKS

_NUMBERS = re.compile(r"-?\d+")
_MAX_DIGITS = 7

_GroupKey = tuple[str, str, tuple[int, ...], bool, int]
"""Name, description, ranks, whether the list of ranks is complete, stated size."""


@lru_cache(maxsize=4096)
def ranks_of_text(text: str) -> tuple[tuple[int, ...], bool]:
    """Return the ranks of a list written as text, and whether the list is complete.

    Source: the profiler cuts lists after 30 elements and ends them with dots ("[0, 1, ...]").
    """
    whole = "..." not in text and "…" not in text
    numbers = _NUMBERS.findall(text)
    if any(len(number) > _MAX_DIGITS for number in numbers):
        return (), whole
    return _valid_ranks([int(number) for number in numbers]), whole


def ranks_of(value: object) -> tuple[tuple[int, ...], bool]:
    """Return the ranks of a JSON value, a text or a list, and whether they are complete.

    ``((), True)`` for other values.
    """
    if isinstance(value, str):
        return ranks_of_text(value)
    if isinstance(value, Sequence):
        return _valid_ranks([rank for rank in value if isinstance(rank, int)]), True
    return (), True


def _valid_ranks(ranks: Sequence[int]) -> tuple[int, ...]:
    """Return the ranks, () if any of them is out of range."""
    return tuple(ranks) if all(0 <= rank < MOST_RANKS for rank in ranks) else ()


def _size(value: object) -> int:
    """Return a number of ranks, MISSING for any other value."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_RANKS:
        return value
    return MISSING


class GroupTable:
    """Distinct process groups that events of one rank use, completed from ``pg_config``."""

    def __init__(self) -> None:
        self._ids: dict[_GroupKey, int] = {}

    def id_of(
        self,
        name: object,
        description: object,
        ranks: object,
        *,
        size: object = None,
        start: object = None,
        stride: object = None,
    ) -> int:
        """Return the id of the group that an event names, -1 if it names none.

        Args:
            name: Name or number of the group.
            description: Its description.
            ranks: Its global ranks, a list or a text, possibly abbreviated.
            size: Its size.
            start: Its first global rank, used with ``stride`` where ``ranks`` is incomplete.
            stride: The distance between its ranks.
        """
        numbers, whole = ranks_of(ranks)
        count = _size(size)
        if (not numbers or not whole) and count > 1:
            numbers, whole = _from_stride(start, stride, count) or (numbers, whole)
        if name is None and not numbers:
            return MISSING
        key = (_text(name), _text(description), numbers, whole, count)
        return self._ids.setdefault(key, len(self._ids))

    def finish(
        self, ids: I32, rows: I32, table: Sequence[ProcessGroup]
    ) -> tuple[I32, tuple[ProcessGroup, ...]]:
        """Return ``ids`` renumbered to final groups, and the groups.

        Groups used by rows come first, by first use; then the others of ``table``. Ids of one
        group are merged: the call of a wait names its group without ranks. Ids that no row uses
        become -1.

        Args:
            ids: Group ids.
            rows: Indices of ``ids``, in the order of the final rows.
            table: The groups of ``pg_config``.
        """
        keys = list(self._ids)
        order = _by_first_use(ids, rows)
        known = _known_by_name([keys[index] for index in order], table)
        numbers: dict[ProcessGroup, int] = {}
        renumbered = np.full(len(keys) + 1, MISSING, np.int32)
        for index in order:
            group = _completed(keys[index], known.get(keys[index][0]))
            renumbered[index] = numbers.setdefault(group, len(numbers))
        for group in table:
            numbers.setdefault(group, len(numbers))
        return renumbered[ids], tuple(numbers)


def _by_first_use(ids: I32, rows: I32) -> list[int]:
    """Return distinct non-negative ``ids`` in the order of their first use by ``rows``."""
    first = np.full(len(ids), len(rows), np.int32)
    first[rows[::-1]] = np.arange(len(rows), dtype=np.int32)[::-1]
    ordered = np.argsort(first, kind="stable")
    used = ordered[first[ordered] < len(rows)]
    return [group for group in dict.fromkeys(ids[used].tolist()) if group >= 0]


def _known_by_name(
    keys: Sequence[_GroupKey], table: Sequence[ProcessGroup]
) -> dict[str, ProcessGroup]:
    """Return the group of each name: that of ``table``, else the only complete one of events."""
    known: dict[str, ProcessGroup] = {}
    for group in table:
        known.setdefault(group.name, group)
    explicit: dict[str, set[tuple[str, tuple[int, ...]]]] = {}
    for name, description, ranks, whole, _ in keys:
        if ranks and whole:
            explicit.setdefault(name, set()).add((description, ranks))
    for name, groups in explicit.items():
        if len(groups) == 1:
            description, ranks = next(iter(groups))
            known.setdefault(name, ProcessGroup(name, description, ranks, len(ranks)))
    return known


def groups_of_config(value: object) -> tuple[ProcessGroup, ...]:
    """Return the groups of the ``pg_config`` table; entries that are not objects are skipped."""
    if not isinstance(value, list):
        return ()
    groups = []
    for entry in value:
        if not isinstance(entry, dict):
            continue
        ranks, whole = ranks_of(entry.get("ranks"))
        size = _size(entry.get("pg_size", entry.get("group_size")))
        groups.append(
            ProcessGroup(
                name=_text(entry.get("pg_name")),
                description=_text(entry.get("pg_desc", entry.get("uid"))),
                ranks=ranks if whole else (),
                size=size if size > 0 else (len(ranks) if whole and ranks else MISSING),
                backend=_text(entry.get("backend_config", entry.get("backend"))),
            )
        )
    return tuple(groups)


def _completed(key: _GroupKey, known: ProcessGroup | None) -> ProcessGroup:
    name, description, ranks, whole, size = key
    if (not whole or not ranks) and known is not None:
        ranks, whole = known.ranks, True
    return ProcessGroup(
        name=name,
        description=description or ("" if known is None else known.description),
        ranks=ranks if whole else (),
        size=len(ranks) if whole and ranks else size,
        backend="" if known is None else known.backend,
    )


def _from_stride(start: object, stride: object, size: int) -> tuple[tuple[int, ...], bool] | None:
    if not isinstance(start, int) or not isinstance(stride, int) or stride < 1 or start < 0:
        return None
    if size > MOST_RANKS:
        return None
    return _valid_ranks(range(start, start + stride * size, stride)), True


def _text(value: object) -> str:
    return "" if value is None else str(value)
