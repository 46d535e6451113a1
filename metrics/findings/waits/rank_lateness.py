"""Lateness of all ranks: over time, as distributions, and summed by node, group or share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.collectives.lag_tables import distribution
from ccltui.metrics.view.collective_selection import chosen_of
from ccltui.metrics.workload.hardware import nvlink_domains

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64


QUANTILES: Final = 101
"""Number of quantiles of a curve: 0 %, 1 %, ... 100 %."""


class Distribution(Struct, frozen=True, eq=False):
    """Quantiles of times, int64 ns.

    Attributes:
        name: "lag" (of a collective), "wait" or "duration" (of one rank at a collective).
        times_ns: the smallest time that at least i % of all do not exceed, [QUANTILES].
        summary: p50, p95 and max in us, and n, as in `straggler_lag`.
    """

    name: str
    times_ns: I64
    summary: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, times in us."""
        return {**self.summary, "quantiles_us": [microseconds(t) for t in self.times_ns.tolist()]}


def distributions(view: View) -> tuple[Distribution, ...]:
    """Return the distributions of lag, wait and duration of the collectives of `straggler_lag`.

    Lag and wait are clock-free. Waits and durations are those of every member.

    Raises:
        Refusal: no selected collective can tell who is late.
    """
    chosen = chosen_of(view)
    times = {
        "lag": [one.lateness.lag_ns for one in chosen],
        "wait": [one.lateness.wait_ns.ravel() for one in chosen],
        "duration": [one.dur_ns.ravel() for one in chosen],
    }
    return tuple(_distribution(name, np.concatenate(parts)) for name, parts in times.items())


def _distribution(name: str, times_ns: I64) -> Distribution:
    ordered = np.sort(times_ns)
    percent = np.arange(QUANTILES, dtype=np.int64)
    # Nearest rank: the ceil(n * share)-th smallest, in integers, because 0.07 * 100 is above 7.
    rank = np.maximum(-(-percent * len(ordered) // (QUANTILES - 1)), 1)
    return Distribution(name, ordered[rank - 1], distribution(times_ns))


LEVELS: Final = 6
"""Number of classes of lateness above the floor, even on a logarithmic scale."""


class LateHeat(Struct, frozen=True, eq=False):
    """Largest lateness of ranks (rows) in parts of the time (columns), int64 ns.

    Attributes:
        labels: the ranks of each row; more than one where ranks are folded.
        edges_ns: boundaries of the columns [columns + 1], since the origin of the job.
        late_ns: largest arrival after the first member, clock-free [rows, columns]; -1 where the
            rank took part in no collective that began in that column.
        levels_ns: boundaries of the classes of lateness [LEVELS + 1]: from the lag floor, up to
            which nobody is called late, to the largest lateness. Empty where nothing exceeds it.
        floor_ns: the lag floor.
        steps: id and start of the steps of the first rank that marks any, ns since the origin.
    """

    labels: tuple[tuple[str, ...], ...]
    edges_ns: I64
    late_ns: I64
    levels_ns: I64
    floor_ns: int
    steps: tuple[tuple[int, int], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, times in us; None where a rank took part in nothing."""
        return {
            "edges_us": [microseconds(one) for one in self.edges_ns.tolist()],
            "late_us": [
                [None if one < 0 else microseconds(one) for one in row]
                for row in self.late_ns.tolist()
            ],
            "levels_us": [microseconds(one) for one in self.levels_ns.tolist()],
            "floor_us": microseconds(self.floor_ns),
        }


def late_heat(view: View, columns: int, most_rows: int) -> LateHeat:
    """Return the largest lateness of each rank in each of ``columns`` equal parts of the time.

    Collectives are those of `straggler_lag`. A collective belongs to the column in which its first
    member arrived. Where there are more than ``most_rows`` ranks, neighbours share a row, whose
    lateness is the largest of theirs.

    Raises:
        Refusal: no selected collective can tell who is late.
    """
    chosen = chosen_of(view)
    firsts = [one.start_ns.min(axis=1) - view.origin_ns for one in chosen]
    begin = min(int(first.min()) for first in firsts)
    length = max(max(int(first.max()) for first in firsts) + 1 - begin, columns)
    edges = begin + np.arange(columns + 1, dtype=np.int64) * length // columns
    late = np.full((len(view.ranks), columns), -1, np.int64)
    for one, first in zip(chosen, firsts, strict=True):
        column = np.searchsorted(edges, first, side="right") - 1
        where = (one.members[np.newaxis, :], np.minimum(column, columns - 1)[:, np.newaxis])
        np.maximum.at(late, where, one.lateness.late_ns)
    per_row = -(-len(view.ranks) // most_rows)
    rows = range(0, len(view.ranks), per_row)
    labels = [rank.label for rank in view.ranks]
    floor = view.arrivals.floor_ns
    return LateHeat(
        labels=tuple(tuple(labels[row : row + per_row]) for row in rows),
        edges_ns=edges,
        late_ns=np.stack([late[row : row + per_row].max(axis=0) for row in rows]),
        levels_ns=_levels(floor, int(late.max())),
        floor_ns=floor,
        steps=_steps(view),
    )


def _levels(floor_ns: int, largest_ns: int) -> I64:
    """Return boundaries even in the logarithm: lateness extends over several decades."""
    if largest_ns <= floor_ns:
        return np.empty(0, np.int64)
    return np.rint(np.geomspace(max(floor_ns, 1), largest_ns, LEVELS + 1)).astype(np.int64)


def _steps(view: View) -> tuple[tuple[int, int], ...]:
    for rank in view.ranks:
        if rank.steps:
            starts = np.array([step.start_ns for step in rank.steps], np.int64)
            since = view.on_job_clock(rank.label, starts) - view.origin_ns
            return tuple(zip((step.id for step in rank.steps), since.tolist(), strict=True))
    return ()


NODE: Final = "node"
DOMAIN: Final = "domain"
SHARE: Final = "share"
_SHARES: Final = (1, 5, 10, 25, 50, 100)
"""Ends of the parts of the ranks, in percent of them, those that cause most wait first."""


class RankWaits(Struct, frozen=True):
    """One rank: what it makes others wait and waits itself, us (`straggler_lag`); None: unknown.

    Attributes:
        label: label of the rank.
        host: name of its host, "" where no file states it.
        caused_us: wait of others that is due to it.
        suffered_us: its own wait.
    """

    label: str
    host: str
    caused_us: float | None
    suffered_us: float | None


class Fold(Struct, frozen=True):
    """Ranks that are one row.

    Attributes:
        name: node, NVLink domain, group or share.
        ranks: those that cause most wait first.
        caused_us: wait of others that is due to them, sum; None where it is known of none.
        suffered_us: their own wait, mean.
        whole: members that the files state, -1 where unknown; ranks without a file among them.
    """

    name: str
    ranks: tuple[RankWaits, ...]
    caused_us: float | None
    suffered_us: float | None
    whole: int = -1


class RankTable(Struct, frozen=True, eq=False):
    """All ranks in order, and the ways to fold them; a table is equal to itself alone.

    Attributes:
        ranks: by label.
        members: places in the order of the members, by kind of fold and name; -1: no file.
        why: reason why the waits are unknown, "" where they are known.
    """

    ranks: Mapping[str, RankWaits]
    members: Mapping[str, Mapping[str, tuple[str | None, ...]]]
    why: str = ""
    cache: dict[str, tuple[Fold, ...]] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of folds, those that have several rows."""
        return tuple(kind for kind, found in self.members.items() if len(found) > 1)

    def folds(self, kind: str) -> tuple[Fold, ...]:
        """Rows of a kind, those that cause most wait first."""
        if kind not in self.cache:
            self.cache[kind] = tuple(self._folds(kind))
        return self.cache[kind]

    def _folds(self, kind: str) -> Iterable[Fold]:
        if kind == SHARE:
            return _by_share(sorted(self.ranks.values(), key=badness))
        found = [
            fold_of(name, [self.ranks[one] for one in labels if one is not None], len(labels))
            for name, labels in self.members[kind].items()
        ]
        return sorted(found, key=badness)


def badness(row: RankWaits | Fold) -> tuple[bool, float, float]:
    """Key of the order: most wait caused, then least wait of its own; unknown ones last."""
    return row.caused_us is None, -(row.caused_us or 0.0), row.suffered_us or 0.0


def fold_of(name: str, ranks: Iterable[RankWaits], whole: int = -1) -> Fold:
    """Return the row of some ranks: the sum of what they cause, the mean of their own wait."""
    members = tuple(sorted(ranks, key=badness))
    caused = [one.caused_us for one in members if one.caused_us is not None]
    suffered = [one.suffered_us for one in members if one.suffered_us is not None]
    return Fold(
        name,
        members,
        sum(caused) if caused else None,
        sum(suffered) / len(suffered) if suffered else None,
        whole,
    )


def rank_table(view: View, lag: Result | None) -> RankTable:
    """Return the waits of all ranks, with nodes, NVLink domains and process groups.

    Args:
        view: The job.
        lag: Result of `straggler_lag` on it, None where it is not computed yet.
    """
    known = lag is not None and lag.status != "unavailable"
    details: Mapping[str, Any] = lag.details if lag is not None and known else {}
    blame, waits = details.get("blame") or {}, details.get("wait_us") or {}
    ranks = {
        rank.label: RankWaits(
            rank.label,
            rank.trace.host,
            (blame.get(rank.label) or {}).get("caused_wait_us"),
            waits.get(rank.label),
        )
        for rank in view.ranks
    }
    nodes: dict[str, list[str | None]] = {}
    for one in ranks.values():
        nodes.setdefault(one.host or "unknown node", []).append(one.label)
    members = {NODE: {name: tuple(found) for name, found in nodes.items()}}
    members |= _domain_members(view)
    members |= _group_members(view)
    if len(ranks) > 1:
        members[SHARE] = {f"{end} %": () for end in _SHARES}
    return RankTable(ranks, members, _why(lag))


def _why(lag: Result | None) -> str:
    if lag is None:
        return "the waits are still being computed"
    if lag.status == "unavailable":
        return lag.reasons[0].message if lag.reasons else "no waiting was measured"
    return ""


def _domain_members(view: View) -> dict[str, dict[str, tuple[str | None, ...]]]:
    """Members of the NVLink domains that logs of NCCL state, {} where they state none."""
    domains = nvlink_domains(view)
    found: dict[str, list[str | None]] = {}
    for rank in view.ranks:
        known = None if rank.rank is None else domains.get(rank.rank)
        found.setdefault(known or "unknown domain", []).append(rank.label)
    return {DOMAIN: {name: tuple(labels) for name, labels in found.items()}} if domains else {}


def _group_members(view: View) -> dict[str, dict[str, tuple[str | None, ...]]]:
    """Members of the groups of each axis; an axis is left out where its groups share ranks."""
    labels = {rank.rank: rank.label for rank in view.ranks if rank.rank is not None}
    found: dict[str, dict[str, tuple[str | None, ...]]] = {}
    for group in view.groups:
        kind = group.axis or group.dim
        members = tuple(labels.get(rank) for rank in group.ranks)
        if kind not in ("world", "unknown", "") and any(members):
            found.setdefault(kind, {})[group.label] = members
    return {kind: rows for kind, rows in found.items() if _disjoint(rows)}


def _disjoint(rows: Mapping[str, tuple[str | None, ...]]) -> bool:
    every = [label for members in rows.values() for label in members if label is not None]
    return len(every) == len(set(every))


def _by_share(ranks: Sequence[RankWaits]) -> Iterable[Fold]:
    begin = 0
    for place, end in enumerate(_SHARES):
        last = max(begin, -(-len(ranks) * end // 100))
        if last > begin:
            first = _SHARES[place - 1] if place and begin else 0
            name = f"worst {end} %" if not first else f"{first} to {end} %"
            yield fold_of(name, ranks[begin:last])
        begin = last
