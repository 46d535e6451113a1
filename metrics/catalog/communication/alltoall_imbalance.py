"""Imbalance of all-to-alls over ranks, and the matrix of bytes between ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.statistics import nearest_rank, ratio
from ccltui.metrics.collectives.matching.match import gather
from ccltui.metrics.metric import metric
from ccltui.metrics.model.calls import DTYPE_BYTES
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.collective_selection import Part, describe_group, parts_of, require_ranks
from ccltui.metrics.view.provenance import call_answer, inputs_of
from ccltui.metrics.workload.expert_exchange import split_sizes
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.collectives.matching.match import MatchInput
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_ALL_TO_ALL = TYPES.index("AllToAll")

Pairs = dict[tuple[int, int], int]


class _Exchanges(Struct, frozen=True):
    """All-to-alls of one group that all of its ranks recorded: bytes, int64 [n, m]."""

    group: int
    labels: tuple[str, ...]
    received: I64
    sent: I64
    num_unsized: int
    num_incomplete: int


@metric(
    unit="ratio",
    definition=(
        "Bytes that the most loaded rank receives in an all-to-all divided by the mean over its "
        "group, both summed over the all-to-alls that all ranks of a group recorded; 1 is even."
    ),
    needs=("all-to-alls with sizes", "all ranks of a group"),
    facts=("arrivals",),
    keys=(
        "imbalance_ratio",
        "sent_imbalance_ratio",
        "p95_imbalance_ratio",
        "max_imbalance_ratio",
        "split_imbalance_ratio",
        "num_exchanges",
        "num_incomplete",
        "num_unsized",
        "num_without_splits",
        "received_bytes",
        "sent_bytes",
        "matrix_bytes",
        "by_group",
    ),
    label="all-to-all imbalance",
    higher_is_better=False,
)
def alltoall_imbalance(view: View) -> Result:
    """Largest over mean load of the ranks for each exchange, and the matrix of all exchanges."""
    require_ranks(view)
    if not any((rank.selected_calls.kind == _ALL_TO_ALL).any() for rank in view.ranks):
        raise _nothing(view, ())
    inputs = {item.label: item for item in view.match_inputs}
    found = [_exchanges(view, part, inputs) for part in parts_of(view)]
    moved = [one for one in found if len(one.received)]
    sent, unread = _matrix(view)
    if not moved:
        raise _nothing(view, found)
    received = _load(moved, "received")
    ratios = np.concatenate([_ratios(one.received) for one in moved])
    unsized, incomplete = (
        sum(getattr(one, name) for one in found) for name in ("num_unsized", "num_incomplete")
    )
    cells = list(sent.values())
    details: dict[str, Any] = {
        "imbalance_ratio": _weighted(moved, "received"),
        "sent_imbalance_ratio": _weighted(moved, "sent"),
        "p95_imbalance_ratio": nearest_rank(ratios.tolist(), 0.95),
        "max_imbalance_ratio": float(ratios.max()),
        "split_imbalance_ratio": ratio(max(cells) * len(cells), sum(cells)) if cells else None,
        "num_exchanges": len(ratios),
        "num_incomplete": incomplete,
        "num_unsized": unsized,
        "num_without_splits": unread,
        "received_bytes": received,
        "sent_bytes": _load(moved, "sent"),
        "matrix_bytes": _table(sent),
        "by_group": [_row(view, one) for one in moved],
    }
    return call_answer(
        alltoall_imbalance,
        view,
        details,
        basis={
            "load": "bytes that a rank receives in one exchange, its own part included",
            "mean": "largest loads over mean loads, both summed over exchanges",
            "matrix_bytes": "from ranks (outer) to ranks (inner), of exchanges that state splits",
        },
        reasons=_reasons(unsized, incomplete),
    )


def _exchanges(view: View, part: Part, inputs: Mapping[str, MatchInput]) -> _Exchanges:
    """Bytes of the selected all-to-alls of a group that all of its ranks recorded."""
    match = part.arrived.match
    rows = part.rows & (match.kind == _ALL_TO_ALL)
    whole = rows & match.complete
    if match.missing:
        whole = np.zeros(len(rows), np.bool_)
    chosen = match.where(whole)
    sides = [gather(chosen, inputs, name) for name in ("in_elems", "out_elems")]
    width = np.append(DTYPE_BYTES, MISSING)[gather(chosen, inputs, "dtype")]
    sized = (sides[0] >= 0).all(axis=1) & (sides[1] >= 0).all(axis=1) & (width > 0).all(axis=1)
    moved = sized & (sides[1].sum(axis=1) > 0)
    sent, received = ((side * width)[moved] for side in sides)
    return _Exchanges(
        group=match.group,
        labels=match.labels,
        received=received,
        sent=sent,
        num_unsized=int((~sized).sum()),
        num_incomplete=int((rows & ~whole).sum()),
    )


def _ratios(load: I64) -> Any:
    return load.max(axis=1) * load.shape[1] / np.maximum(load.sum(axis=1), 1)


def _weighted(moved: Sequence[_Exchanges], side: str) -> float | None:
    """Largest over mean load, both summed over all exchanges."""
    largest = sum(int(getattr(one, side).max(axis=1).sum()) for one in moved)
    mean = sum(float(getattr(one, side).sum()) / len(one.labels) for one in moved)
    return ratio(largest, mean)


def _load(moved: Sequence[_Exchanges], side: str) -> dict[str, int]:
    """Bytes of each rank over all exchanges."""
    found: dict[str, int] = {}
    for one in moved:
        for label, total in zip(one.labels, getattr(one, side).sum(axis=0).tolist(), strict=True):
            found[label] = found.get(label, 0) + total
    return found


def _row(view: View, one: _Exchanges) -> dict[str, Any]:
    ratios = _ratios(one.received)
    most = one.received.argmax(axis=1)
    return {
        **describe_group(view, one.group),
        "num_exchanges": len(ratios),
        "imbalance_ratio": _weighted([one], "received"),
        "max_imbalance_ratio": float(ratios.max()),
        "received_bytes": _load([one], "received"),
        "most_loaded": {
            label: int((most == i).sum()) for i, label in enumerate(one.labels) if (most == i).any()
        },
    }


def _matrix(view: View) -> tuple[Pairs, int]:
    """Bytes by pair of global ranks, and the number of all-to-alls without stated splits."""
    total: Pairs = {}
    unread = 0
    for rank in view.ranks:
        if rank.rank is None:
            continue
        for ranks, split, width in _splits(view, rank):
            if split is None:
                unread += 1
                continue
            for target, elements in zip(ranks, split, strict=True):
                key = (rank.rank, target)
                total[key] = total.get(key, 0) + round(elements * width)
    return total, unread


def _splits(
    view: View, rank: RankView
) -> Iterator[tuple[Sequence[int], Sequence[float] | None, int]]:
    """Ranks, elements sent to each of them (None where not stated), and bytes per element."""
    calls = rank.named(rank.selected_calls)
    rows = np.flatnonzero((calls.kind == _ALL_TO_ALL) & (calls.group >= 0) & (calls.in_elems > 0))
    widths = np.append(DTYPE_BYTES, MISSING)[calls.dtype]
    for row in rows.tolist():
        ranks = view.groups[int(calls.group[row])].ranks
        if len(ranks) < 2 or widths[row] < 0:
            continue
        stated = split_sizes(rank.trace, calls, row, len(ranks))
        elements = int(calls.in_elems[row])
        if stated == ():  # equal parts
            yield ranks, [elements / len(ranks)] * len(ranks), int(widths[row])
        elif stated is None or not sum(stated):
            yield ranks, None, int(widths[row])
        else:
            scale = elements / sum(stated)
            yield ranks, [part * scale for part in stated], int(widths[row])


def _table(sent: Pairs) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (source, target), moved in sorted(sent.items()):
        found.setdefault(str(source), {})[str(target)] = moved
    return found


def _nothing(view: View, found: Sequence[_Exchanges]) -> Exception:
    unsized = sum(one.num_unsized for one in found)
    incomplete = sum(one.num_incomplete for one in found)
    if unsized:
        return refuse("no_message_size", f"none of {unsized} all-to-alls records its message size")
    if incomplete:
        text = f"none of {incomplete} all-to-alls was recorded on all ranks of its group"
        return refuse(
            "missing_ranks" if inputs_of(view)["missing_ranks"] else "unmatched_collectives", text
        )
    text = "no all-to-all between ranks in the selection"
    if any((rank.recorded_calls.kind == TYPES.index("SendRecv")).any() for rank in view.ranks):
        text += "; kernels named SendRecv may be all-to-alls; without metadata this is not known"
    return refuse("no_collectives", text)


def _reasons(unsized: int, incomplete: int) -> list[Reason]:
    reasons = []
    if unsized:
        reasons.append(Reason("no_message_size", f"{unsized} all-to-alls do not state their sizes"))
    if incomplete:
        text = f"{incomplete} all-to-alls lack the record of some rank"
        reasons.append(Reason("unmatched_collectives", text))
    return reasons


metric_cal = alltoall_imbalance.document_of
