"""What devices spend a step on: computing, waiting, communication by dimension, copies, idle."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import (
    device_ranks,
    require_communication_on_device,
    without_device,
)
from ccltui.metrics.device.time_losses import UNKNOWN, Loss, losses
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Result
from ccltui.metrics.view.provenance import answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

COMPUTE: Final = "compute"
WAITING: Final = "waiting"
KINDS: Final = (COMPUTE, WAITING, "communication", "copies", "idle")
"""Kinds of parts in the order of the list; within a kind the largest part is first."""

Part = tuple[str, str]
"""Kind and name of a part."""


@metric(
    unit="ratio",
    definition=(
        "Share of the measured time of all ranks in which a computing kernel runs; the parts are "
        "a complete, disjoint division of that time: computing, and while nothing computes "
        "waiting for a late rank, exposed communication by parallel dimension, copies, and idle "
        "time by cause."
    ),
    needs=("GPU kernels",),
    keys=("compute_ratio", "parts", "window_ms", "num_steps", "step_ms", "per_rank"),
    headline="compute_ratio",
    label="step composition",
    higher_is_better=True,
)
def step_composition(view: View) -> Result:
    """Divide the measured time completely into parts that are named for a reader."""
    ranks = device_ranks(view)
    require_communication_on_device(ranks)
    by_rank = {rank.label: _parts_of(view, ranks, rank) for rank in ranks}
    total: Counter[Part] = Counter()
    for parts in by_rank.values():
        total.update(parts)
    window = sum(rank.window_ns for rank in ranks)
    steps = _num_steps(ranks)
    details: dict[str, Any] = {
        "compute_ratio": ratio(total[COMPUTE, COMPUTE], window),
        "parts": [_row(part, total[part], window, len(ranks), steps) for part in _ordered(total)],
        "window_ms": milliseconds(window) / len(ranks),
        "num_steps": steps,
        "step_ms": _per_step(window, len(ranks), steps),
        "per_rank": {
            label: {
                kind: ratio(sum(ns for part, ns in parts.items() if part[0] == kind), own)
                for kind in KINDS
            }
            for (label, parts), own in zip(
                by_rank.items(), (rank.window_ns for rank in ranks), strict=True
            )
        },
    }
    return answer(
        step_composition,
        view,
        details,
        source="kernel",
        basis={
            "order": "where parts meet the first of these has the time: computing, waiting, "
            "communication, copies, idle",
            "waiting": "exposed time before the last rank of a collective arrived",
            "aggregate": "ms are means over ranks, shares come from sums",
            "step": "step_ms is the measured time of a rank divided by its steps",
        },
        reasons=without_device(view),
    )


def _parts_of(view: View, ranks: Sequence[RankView], rank: RankView) -> Counter[Part]:
    """Time of one rank by part, in ns; the sum is its window."""
    dims = view.remember(_dims_of_calls, lambda: _dims_of_calls(view, ranks))
    found: Counter[Part] = Counter()
    for loss in losses(view, ranks):
        found[_part(loss, dims)] += loss.by_rank.get(rank.label, 0)
    found[COMPUTE, COMPUTE] = rank.comp.total_ns
    return found


def _part(loss: Loss, dims: Mapping[tuple[str, int], str]) -> Part:
    if loss.kind == "straggler":
        return WAITING, WAITING
    if loss.kind == "communication":
        return loss.kind, dims.get((loss.what.partition(" of ")[0], loss.group), UNKNOWN)
    return loss.kind, loss.what


def _dims_of_calls(view: View, ranks: Sequence[RankView]) -> dict[tuple[str, int], str]:
    """Parallel dimension of the calls of each type and group: the one of most of them."""
    counts: dict[tuple[str, int], Counter[str]] = {}
    for rank in ranks:
        calls = rank.device_calls
        dims, _ = view.dims_of(calls)
        code = (calls.group.astype(np.int64) * len(TYPES) + calls.kind) * len(DIMS) + dims
        for one in distinct_values(code).tolist():
            rest, dim = divmod(one, len(DIMS))
            group, kind = divmod(rest, len(TYPES))
            number = int((code == one).sum())
            counts.setdefault((TYPES[kind], group), Counter())[DIMS[dim]] += number
    return {key: max(found, key=lambda dim: (found[dim], dim)) for key, found in counts.items()}


def _ordered(total: Counter[Part]) -> list[Part]:
    """Computing, then each kind with its largest part first; parts without time are left out."""
    kept = [part for part, ns in total.items() if ns > 0]
    return sorted(kept, key=lambda part: (KINDS.index(part[0]), -total[part], part[1]))


def _row(
    part: Part, time_ns: int, window_ns: int, num_ranks: int, steps: int | None
) -> dict[str, Any]:
    kind, name = part
    return {
        "part": name,
        "kind": kind,
        "ms": milliseconds(time_ns) / num_ranks,
        "step_ms": _per_step(time_ns, num_ranks, steps),
        "share": ratio(time_ns, window_ns),
    }


def _per_step(time_ns: int, num_ranks: int, steps: int | None) -> float | None:
    """Time in ms of a rank in a step, mean over both; None where no step is measured."""
    return milliseconds(time_ns) / num_ranks / steps if steps else None


def _num_steps(ranks: Sequence[RankView]) -> int | None:
    """Number of measured steps of a rank, None without markers or where ranks differ."""
    counts = {len(rank.step_windows) if rank.by_steps else 0 for rank in ranks}
    return counts.pop() or None if len(counts) == 1 else None


metric_cal = step_composition.document_of
