"""Share of traffic between hosts, and the bandwidth inside and between hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import distinct_values, rows_by_value
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse, unknown_wire_bytes
from ccltui.metrics.view.collective_selection import describe_group
from ccltui.metrics.view.instances import Instances, instances_of, require_sized_calls
from ccltui.metrics.view.provenance import call_answer
from ccltui.metrics.workload.hardware import crosses_domains, crosses_hosts, host_of, nvlink_domains
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64, Bool

INTRA, INTER, UNKNOWN = 0, 1, 2
PLACES: Final = ("intra_node", "inter_node", "unknown")

_TRANSFERS: Final = (TYPES.index("Send"), TYPES.index("Recv"))


class _Places(Struct, frozen=True):
    """Place of a call: from its group, or from its pair of ranks for a transfer."""

    groups: I64
    ranks: I64  # global ranks of known hosts, ascending
    hosts: I64  # number of the host of each

    @classmethod
    def on(cls, groups: I64, hosts: Mapping[int, str]) -> _Places:
        """``hosts`` by global rank."""
        names = {name: number for number, name in enumerate(sorted(set(hosts.values())))}
        ranks = sorted(hosts)
        numbers = [names[hosts[rank]] for rank in ranks]
        return cls(groups, np.array(ranks, np.int64), np.array(numbers, np.int64))

    def _host_of(self, rank: I64) -> I64:
        """Number of the host of each rank, -1 where unknown."""
        place = np.searchsorted(self.ranks, rank)
        known = np.append(self.ranks, MISSING)[place] == rank
        return np.where(known, np.append(self.hosts, MISSING)[place], MISSING)

    def of(self, kind: I64, group: I64, own: I64, peer: I64) -> I64:
        """Index into PLACES of each call; ``own`` and ``peer`` are global ranks, -1 unknown."""
        found = np.append(self.groups, UNKNOWN)[group]
        pairs = np.isin(kind, _TRANSFERS) & (peer >= 0) & (own >= 0)
        here, there = self._host_of(own[pairs]), self._host_of(peer[pairs])
        known = np.where(here != there, INTER, INTRA)
        found[pairs] = np.where((here < 0) | (there < 0), UNKNOWN, known)
        return np.asarray(found)


@metric(
    unit="ratio",
    definition=(
        "Share of the bytes on the wire, out of those whose hosts are known, in groups with "
        "ranks on several hosts or in transfers between two hosts. by_nvlink_domain has bytes and "
        "bandwidth inside and between the NVLink domains that logs of NCCL state."
    ),
    needs=("collectives with sizes", "process groups", "host names, or count_per_node of a card"),
    facts=("pairs", "matches"),
    keys=(
        "inter_node_ratio",
        *(f"{name}_bytes" for name in PLACES),
        *(f"{name}_ms" for name in PLACES),
        *(f"{name}_busbw_GBps" for name in PLACES[:UNKNOWN]),
        "num_hosts",
        "by_nvlink_domain",
        "by_dim",
        "by_type",
        "by_group",
    ),
    label="traffic between hosts",
)
def node_locality(view: View) -> Result:
    """Bytes, time and bandwidth of groups inside one host, and of those across hosts."""
    require_sized_calls(view)
    every = instances_of(view)
    hosts = {rank: host for rank in _ranks(view) if (host := host_of(view, rank))}
    places = _Places.on(_of_groups(view), hosts)
    moving = every.take(every.counts_bytes)
    where = places.of(
        moving.kind.astype(np.int64), moving.group.astype(np.int64), moving.source, moving.target
    )
    if len(where) and (where == UNKNOWN).all():
        raise refuse(
            "no_card" if view.card.card is None else "card_incomplete",
            "it is not known which rank is on which host: the traces name no hosts, and no card "
            "states count_per_node",
        )
    sized = moving.wire_bytes >= 0
    if not sized.any():
        raise unknown_wire_bytes(sized=bool((moving.message_bytes >= 0).any()))
    sums = [int(moving.wire_bytes[sized & (where == place)].sum()) for place in range(len(PLACES))]
    times = _times(view, places)
    details: dict[str, Any] = {
        "inter_node_ratio": ratio(sums[INTER], sums[INTRA] + sums[INTER]),
        **{f"{name}_bytes": sums[place] for place, name in enumerate(PLACES)},
        **{f"{name}_ms": times[place] for place, name in enumerate(PLACES)},
        **{
            f"{name}_busbw_GBps": _busbw(moving, sized & (where == place))
            for place, name in enumerate(PLACES[:UNKNOWN])
        },
        "num_hosts": len(set(hosts.values())),
        "by_nvlink_domain": _by_domain(view, moving, sized),
        "by_dim": _by(moving, sized, where, moving.dim, DIMS),
        "by_type": _by(moving, sized, where, moving.kind, TYPES),
        "by_group": _by_group(view, moving, sized, where),
    }
    return call_answer(
        node_locality,
        view,
        details,
        basis={
            "place": "a group is inside one host or across hosts; a transfer goes by its two ranks",
            "bytes": "what all ranks present send, by the cost of a ring; of a group across hosts "
            "all of it, whatever its ring keeps inside",
            "time": "time in calls, unions by rank, mean over ranks",
            "busbw": "bytes that a rank sends over the shortest duration of its ranks",
        },
        reasons=_reasons(sums[UNKNOWN], int((~sized).sum()), len(moving)),
    )


def _ranks(view: View) -> list[int]:
    return sorted(
        {rank for group in view.groups for rank in group.ranks}
        | {trace.rank for trace in view.job.ranks if trace.rank is not None}
    )


def _of_groups(view: View) -> I64:
    names = {True: INTER, False: INTRA, None: UNKNOWN}
    return np.array([names[crosses_hosts(view, group.ranks)] for group in view.groups], np.int64)


def _times(view: View, places: _Places) -> list[float | None]:
    """Mean over ranks of the time in calls of each place, ms; None where no rank has any."""
    found: list[list[int]] = [[] for _ in PLACES]
    for rank in view.ranks:
        calls = rank.named(rank.selected_calls)
        peer = np.where(calls.kind == _TRANSFERS[0], calls.dst, calls.src)
        own = np.full(len(calls), -1 if rank.rank is None else rank.rank)
        where = places.of(calls.kind.astype(np.int64), calls.group.astype(np.int64), own, peer)
        for place in range(len(PLACES)):
            rows = where == place
            spent = union(calls.start_ns[rows], calls.end_ns[rows])
            found[place].append(spent.total_ns)
    return [milliseconds(sum(one)) / len(one) if any(one) else None for one in found]


def _busbw(moving: Instances, rows: Bool) -> float | None:
    """Bytes per rank over the shortest duration, both summed over collectives of several ranks."""
    here = moving.take(rows & (moving.members > 1) & (moving.time_ns > 0) & moving.trusted)
    # a transfer is sent by one of its two ranks
    senders = np.where(np.isin(here.kind, _TRANSFERS), 1, here.members)
    return ratio(float((here.wire_bytes / senders).sum()), float(here.time_ns.sum()))


def _by(
    moving: Instances, sized: Bool, where: I64, index: np.ndarray[Any, Any], names: Sequence[str]
) -> dict[str, dict[str, int]]:
    found = {}
    for one in distinct_values(index[sized]).tolist():
        rows = sized & (index == one)
        found[names[one]] = _bytes(moving, rows, where)
    return found


def _bytes(moving: Instances, rows: Bool, where: I64) -> dict[str, int]:
    return {
        f"{name}_bytes": int(moving.wire_bytes[rows & (where == place)].sum())
        for place, name in enumerate(PLACES)
        if (rows & (where == place)).any()
    }


def _by_domain(view: View, moving: Instances, sized: Bool) -> list[dict[str, Any]]:
    """Bytes and bandwidth inside NVLink domains and between them, [] where none is stated."""
    domains = nvlink_domains(view)
    if not domains:
        return []
    names = {True: INTER, False: INTRA, None: UNKNOWN}
    groups = [
        names[crosses_domains(view, group.ranks) if len(group.ranks) > 1 else None]
        for group in view.groups
    ]
    where = _Places.on(np.array(groups, np.int64), domains).of(
        moving.kind.astype(np.int64), moving.group.astype(np.int64), moving.source, moving.target
    )
    return [
        {
            "place": name,
            "wire_bytes": int(moving.wire_bytes[sized & (where == place)].sum()),
            "busbw_GBps": _busbw(moving, sized & (where == place)),
        }
        for place, name in enumerate(("inside", "between", "unknown"))
        if (sized & (where == place)).any()
    ]


def _by_group(view: View, moving: Instances, sized: Bool, where: I64) -> list[dict[str, Any]]:
    rows = []
    numbers = np.flatnonzero(sized)
    for group, places in rows_by_value(moving.group[numbers]):
        here, all_of_them = numbers[places], np.ones(len(places), np.bool_)
        part = moving.take(here)
        row = {**describe_group(view, group), **_bytes(part, all_of_them, where[here])}
        rows.append({**row, "busbw_GBps": _busbw(part, all_of_them)})
    return rows


def _reasons(unknown: int, unsized: int, count: int) -> list[Reason]:
    reasons = []
    if unknown:
        text = f"{unknown} bytes are of groups whose hosts are not known: they are in no share"
        reasons.append(Reason("card_incomplete", text))
    if unsized:
        text = f"{unsized} of {count} collectives do not record what they send"
        reasons.append(Reason("no_message_size", text))
    return reasons


metric_cal = node_locality.document_of
