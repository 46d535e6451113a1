"""Share of time in which the device is busy, with and without communication."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMM, COMP, MEM
from ccltui.metrics.model.rank_facts import OTHER
from ccltui.metrics.result import Result
from ccltui.metrics.view.rank_view import of_rank, totals

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_Times = tuple[int, int, int]


class Busy(Struct):
    """Sums in ns: any work, work other than collectives, and the measured time."""

    busy: int = 0
    useful: int = 0
    window: int = 0

    def add(self, busy: int, useful: int, window: int) -> None:
        """Add one more window."""
        self.busy += busy
        self.useful += useful
        self.window += window

    @property
    def shares(self) -> dict[str, float | None]:
        """JSON form."""
        return {
            "gpu_busy_ratio": ratio(self.busy, self.window),
            "useful_busy_ratio": ratio(self.useful, self.window),
        }


@metric(
    unit="ratio",
    definition=(
        "Share of the measured time in which the device runs a kernel or a copy, including "
        "collectives that wait for other ranks."
    ),
    needs=("GPU kernels",),
    facts=("sums",),
    keys=(
        "gpu_busy_ratio",
        "useful_busy_ratio",
        "busy_ms",
        "useful_busy_ms",
        "window_ms",
        "per_step",
        "per_rank",
    ),
    sums=(of_rank(totals),),
    label="GPU busy, waiting included",
    higher_is_better=True,
)
def gpu_busy(view: View) -> Result:
    """Busy time over windows, in total and step by step."""
    ranks = device_ranks(view)
    per_rank: dict[str, Busy] = {rank.label: Busy() for rank in ranks}
    per_step: defaultdict[int, Busy] = defaultdict(Busy)
    total = Busy()
    for rank in ranks:
        whole, steps = _busy_of(rank)
        per_rank[rank.label].add(*whole)
        total.add(*whole)
        for step, times in steps.items():
            per_step[step].add(*times)
    details: dict[str, Any] = {
        **total.shares,
        "busy_ms": milliseconds(total.busy) / len(ranks),
        "useful_busy_ms": milliseconds(total.useful) / len(ranks),
        "window_ms": milliseconds(total.window) / len(ranks),
        "per_step": {str(step): part.shares for step, part in sorted(per_step.items())},
        "per_rank": {label: part.shares for label, part in per_rank.items()},
    }
    return device_answer(
        gpu_busy,
        view,
        details,
        basis={
            "aggregate": "sum over ranks of busy time, over that of windows",
            "useful": "computation and copies: a collective may only wait for other ranks",
        },
    )


def _busy_of(rank: RankView) -> tuple[_Times, dict[int, _Times]]:
    """Return busy, useful and measured time of a rank in ns, and the same of each of its steps."""
    times = rank.times
    busy, useful = times.by_step(COMM, COMP, MEM, OTHER), times.by_step(COMP, MEM)
    steps = {step: (busy[step], useful[step], ns) for step, ns in times.window_by_step.items()}
    return (times.busy_ns, times.any_of(COMP, MEM), rank.window_ns), steps


metric_cal = gpu_busy.document_of
