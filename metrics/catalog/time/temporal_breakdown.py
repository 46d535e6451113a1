"""Time of the device by activity: computing, communicating, both, copying, or idle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.findings.rank_time.partition import (
    PARTS,
    mean_row,
    split_row,
    split_time,
    total_of,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMM, COMP, MEM
from ccltui.metrics.result import Result
from ccltui.metrics.view.rank_view import of_rank

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_STATES: Final[Mapping[str, tuple[int, ...]]] = {
    "comp": (COMP,),
    "comm": (COMM,),
    "mem": (MEM,),
    "comp_comm": (COMP, COMM),
    "comp_mem": (COMP, MEM),
    "comm_mem": (COMM, MEM),
    "comp_comm_mem": (COMP, COMM, MEM),
}
KINDS = tuple(_STATES)


@metric(
    unit="ratio",
    definition=(
        "Share of the measured time in which a computing kernel runs; the details divide the "
        "measured time into idle, computation only, communication only, both at once, and "
        "copies only."
    ),
    needs=("GPU kernels",),
    facts=("sums",),
    keys=(
        "comp_ratio",
        "window_ms",
        *(f"{part}_ms" for part in PARTS),
        *(f"{part}_ratio" for part in PARTS),
        "exclusive_ms",
        "per_rank",
    ),
    sums=(of_rank(split_time),),
    label="computation share",
    higher_is_better=True,
)
def temporal_breakdown(view: View) -> Result:
    """Divide the windows of every rank completely."""
    ranks = device_ranks(view)
    parts = {rank.label: split_time(rank) for rank in ranks}
    total = total_of(parts.values())
    computing = total.comp_only + total.overlap
    exclusive = [exclusive_ns(rank) for rank in ranks]
    details: dict[str, Any] = {
        "comp_ratio": ratio(computing, total.window),
        **mean_row(parts),
        "exclusive_ms": {
            kind: milliseconds(sum(one[kind] for one in exclusive)) / len(ranks) for kind in KINDS
        },
        "per_rank": {label: split_row(part) for label, part in parts.items()},
    }
    return device_answer(
        temporal_breakdown,
        view,
        details,
        basis={
            "aggregate": "times are means over ranks, shares come from sums",
            "copies": "beside a kernel they count with the kernel",
        },
    )


def exclusive_ns(rank: RankView) -> dict[str, int]:
    """Return the time in exactly this combination of kinds of work, in ns."""
    of_state = rank.times.exclusive_ns
    return {kind: of_state[sum(1 << one for one in kinds)] for kind, kinds in _STATES.items()}


metric_cal = temporal_breakdown.document_of
