"""Wait that ranks cause and have, summed by node, by process group, and by share of the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View

NODE: Final = "node"
SHARE: Final = "share"
_SHARES: Final = (1, 5, 10, 25, 50, 100)
"""Ends of the parts of the ranks, in percent of them, those that cause most wait first."""


@dataclass(frozen=True, slots=True)
class RankWaits:
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


@dataclass(frozen=True, slots=True)
class Fold:
    """Ranks that are one row.

    Attributes:
        name: node, group or share.
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


@dataclass(frozen=True, slots=True, eq=False)
class RankTable:
    """All ranks in order, and the ways to fold them; a table is equal to itself alone.

    Attributes:
        ranks: by label.
        members: places in the order of the members, by kind of fold and name; -1: no file.
        why: reason why the waits are unknown, "" where they are known.
    """

    ranks: Mapping[str, RankWaits]
    members: Mapping[str, Mapping[str, tuple[str | None, ...]]]
    why: str = ""
    cache: dict[str, tuple[Fold, ...]] = field(default_factory=dict, compare=False)

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
    """Return the waits of all ranks, with nodes and process groups.

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
    members |= _group_members(view)
    if len(ranks) > 1:
        members[SHARE] = {f"{end} %": () for end in _SHARES}
    return RankTable(ranks, members, _why(lag))


def _why(lag: Result | None) -> str:
    if lag is None:
        return "the waits are still being computed"
    if lag.status == "unavailable":
        return lag.reasons[0].message if lag.reasons else "straggler_lag has no value"
    return ""


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
