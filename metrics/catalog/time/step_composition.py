"""What devices spend a step on: computing, waiting, communication by dimension, copies, idle."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import (
    device_answer,
    device_ranks,
    require_communication_on_device,
)
from ccltui.metrics.findings.rank_time.partition import (
    COMPUTE,
    KINDS,
    Named,
    in_order,
    named_parts,
    partition,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


@metric(
    unit="ratio",
    definition=(
        "Share of the measured time of all ranks in which a computing kernel runs; the parts are "
        "a complete, disjoint division of that time: computing, and while nothing computes "
        "waiting for a late rank, exposed communication by parallel dimension, bubble "
        "(communication between pipeline stages), copies, and idle time by cause."
    ),
    needs=("GPU kernels",),
    facts=("partition",),
    keys=("compute_ratio", "parts", "window_ms", "num_steps", "step_ms", "per_rank"),
    label="step composition",
    higher_is_better=True,
)
def step_composition(view: View) -> Result:
    """Divide the measured time completely into parts that are named for a reader."""
    ranks = device_ranks(view)
    require_communication_on_device(ranks)
    by_rank, span = named_parts(view), partition(view).span_ns
    total: Counter[Named] = Counter()
    for parts in by_rank.values():
        total.update(parts)
    window = sum(span.values())
    steps = _num_steps(ranks)
    details: dict[str, Any] = {
        "compute_ratio": ratio(total[COMPUTE, COMPUTE], window),
        "parts": [_row(part, total[part], window, len(ranks), steps) for part in in_order(total)],
        "window_ms": milliseconds(window) / len(ranks),
        "num_steps": steps,
        "step_ms": _per_step(window, len(ranks), steps),
        "per_rank": {
            label: {
                kind: ratio(sum(ns for part, ns in parts.items() if part[0] == kind), span[label])
                for kind in KINDS
            }
            for label, parts in by_rank.items()
        },
    }
    return device_answer(
        step_composition,
        view,
        details,
        basis={
            "order": "time in several parts counts for the first of these: computing, waiting, "
            "communication or bubble, copies, idle",
            "waiting": "exposed time before the last rank of a collective arrived",
            "aggregate": "ms are means over ranks, shares come from sums",
            "step": "step_ms is the measured time of a rank divided by its steps",
        },
    )


def _row(
    part: Named, time_ns: int, window_ns: int, num_ranks: int, steps: int | None
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
