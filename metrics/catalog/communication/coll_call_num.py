"""Number of collectives that a job issues, by type and group."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from ccltui.metrics.arrays.reductions import unique_counts
from ccltui.metrics.metric import metric
from ccltui.metrics.model.call_families import api_call_times
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.view.data_quality import without_device_times
from ccltui.metrics.view.provenance import answer, source_of

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

ALWAYS_SHOWN = (
    "AllReduce",
    "ReduceScatter",
    "AllGather",
    "Broadcast",
    "Reduce",
    "SendRecv",
    "AllToAll",
    "Send",
    "Recv",
    "Generic",
    "Other",
)
_ONE_SIDED = frozenset({"Send", "Recv", "SendRecv"})

GroupCounts = dict[str, Counter[tuple[int, int, int]]]
"""Rank label -> calls by (group, type, dimension)."""


@metric(
    unit="calls",
    definition=(
        "Number of collective kernels launched, summed over the ranks present; in a trace "
        "without GPU kernels, the number of events of one host-side family."
    ),
    needs=("GPU kernels, or one family of recorded collectives",),
    facts=("calls",),
    keys=(
        "total_calls",
        "calls_per_rank",
        "calls_by_type",
        "calls_per_step",
        "calls_by_group",
        "num_traces",
        "api_calls",
        "num_without_metadata",
        "rank_mismatch",
    ),
    aliases=("coll_call_num_16",),
    label="collective calls",
)
def coll_call_num(view: View) -> Result:
    """Count the calls of every rank by type, step and group."""
    reasons = _cpu_only(view)
    per_rank = {rank.label: len(_counted(rank)) for rank in view.ranks}
    kinds = sum((_by_kind(view, rank) for rank in view.ranks), Counter[str]())
    counts = {rank.label: _by_group(view, rank) for rank in view.ranks}
    details = {
        "total_calls": sum(per_rank.values()),
        "calls_per_rank": per_rank,
        "calls_by_type": dict.fromkeys(ALWAYS_SHOWN, 0) | dict(kinds),
        "calls_per_step": {rank.label: _by_step(view, rank) for rank in view.ranks},
        "calls_by_group": _group_rows(view, counts),
        "num_traces": len(view.ranks),
        "api_calls": _api_calls(view),
        "num_without_metadata": sum(_without_metadata(view, rank) for rank in view.ranks),
        "rank_mismatch": _mismatches(view, counts),
    }
    source, warnings = source_of(view.ranks)
    basis = {"unit": "kernel launches" if source == "kernel" else "host-side events"}
    return answer(
        coll_call_num, view, details, source=source, basis=basis, reasons=reasons, warnings=warnings
    )


def _counted(rank: RankView) -> Calls:
    return rank.remember(_counted, lambda: rank.counted(rank.selected_calls))


def _cpu_only(view: View) -> list[Reason]:
    silent = [
        r
        for r in view.ranks
        if not r.facts.has_device and not r.facts.has_untimed and not len(r.recorded_calls)
    ]
    if len(silent) == len(view.ranks):
        raise without_device_times(view, "CPU-only trace without any recorded collective")
    return [
        Reason("no_gpu_events", f"rank {r.label}: CPU-only, no recorded collective", rank=r.label)
        for r in silent
    ]


def _by_kind(view: View, rank: RankView) -> Counter[str]:
    calls = _counted(rank)
    return view.of_alike(_by_kind, calls, lambda: _count_kinds(calls))


def _count_kinds(calls: Calls) -> Counter[str]:
    counts = np.bincount(calls.kind, minlength=len(TYPES)).tolist()
    return Counter({name: count for name, count in zip(TYPES, counts, strict=True) if count})


def _without_metadata(view: View, rank: RankView) -> int:
    calls = _counted(rank)
    return view.of_alike(
        _without_metadata, calls, lambda: int(np.count_nonzero(~calls.has_metadata))
    )


def _by_step(view: View, rank: RankView) -> dict[str, int]:
    """Calls by step, with those that no step covers under "outside"; empty without step markers."""
    if rank.marker is None:
        return {}
    calls = _counted(rank)
    return view.of_alike(_by_step, calls, lambda: _count_steps(calls), calls.step)


def _count_steps(calls: Calls) -> dict[str, int]:
    steps, counts = unique_counts(calls.step)
    named = zip(steps.tolist(), counts.tolist(), strict=True)
    return {str(step) if step >= 0 else "outside": count for step, count in named}


def _by_group(view: View, rank: RankView) -> Counter[tuple[int, int, int]]:
    calls = _counted(rank)
    return view.of_alike(_by_group, calls, lambda: _count_groups(view, calls))


def _count_groups(view: View, calls: Calls) -> Counter[tuple[int, int, int]]:
    dims, _ = view.dims_of(calls)
    last = int(calls.group.max(initial=-1))
    shape = (last + 2, len(TYPES), len(DIMS))  # the first group is none
    keys = (calls.group.astype(np.int64) + 1, calls.kind, dims)
    found, counts = unique_counts(np.ravel_multi_index(keys, shape))
    rows = zip(*(part.tolist() for part in np.unravel_index(found, shape)), strict=True)
    numbers = counts.tolist()
    return Counter({(g - 1, k, d): n for (g, k, d), n in zip(rows, numbers, strict=True)})


def _group_rows(view: View, counts: GroupCounts) -> list[dict[str, Any]]:
    total: Counter[tuple[int, int, int]] = Counter()
    for one in counts.values():
        total.update(one)
    return [
        {
            "ranks": list(view.group(group).ranks) if group >= 0 else None,
            "desc": view.group(group).description if group >= 0 else None,
            "name": view.group(group).name if group >= 0 else None,
            "dim": DIMS[dim],
            "type": TYPES[kind],
            "calls": calls,
        }
        for (group, kind, dim), calls in sorted(total.items())
    ]


def _mismatches(view: View, counts: GroupCounts) -> list[dict[str, Any]] | None:
    """Groups whose present ranks issue different numbers of one type; None without any group."""
    named = [group >= 0 for one in counts.values() for group, _, _ in one]
    if named and not any(named):
        return None
    members: defaultdict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for rank in view.ranks:
        for (group, kind, _), calls in counts[rank.label].items():
            if group >= 0 and TYPES[kind] not in _ONE_SIDED:
                known = members[group, kind]
                known[rank.label] = known.get(rank.label, 0) + calls
    rows = []
    places: defaultdict[int | None, list[int]] = defaultdict(list)
    for place, rank in enumerate(view.ranks):
        places[rank.rank].append(place)
    for (group, kind), found in sorted(members.items()):
        here = sorted(place for one in view.group(group).ranks for place in places.get(one, ()))
        present = [view.ranks[place].label for place in here]
        numbers = {label: found.get(label, 0) for label in present}
        if len(set(numbers.values())) > 1:
            label = view.group(group).label
            rows.append({"group": label, "type": TYPES[kind], "calls_per_rank": numbers})
    return rows


def _api_calls(view: View) -> int | None:
    """Recorded calls of the framework; None where not recorded or where one group is selected."""
    if view.options.group is not None:
        return None
    times = zip(view.ranks, api_call_times(rank.trace for rank in view.ranks), strict=True)
    known = [int(rank.contains(starts).sum()) for rank, starts in times if starts is not None]
    return sum(known) if known else None


metric_cal = coll_call_num.document_of
