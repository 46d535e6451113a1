"""A metric of another package: it uses what a built-in one uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ccltui.metrics.metric import Metric
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import answer

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


def compute(view: View) -> Result:
    """Device work of every kind, per rank."""
    per_rank = {rank.label: len(rank.trace.group("gpu")) for rank in view.ranks}
    if not any(per_rank.values()):
        raise refuse("no_gpu_events", "no device work")
    details = {"num_kernels": sum(per_rank.values()), "per_rank": per_rank}
    return answer(NUM_KERNELS, view, details, source="kernel")


NUM_KERNELS = Metric(
    name="num_kernels",
    unit="kernels",
    definition="Rows of device work over the ranks present.",
    needs=("GPU kernels",),
    keys=("num_kernels", "per_rank"),
    headline="num_kernels",
    compute=compute,
    aliases=("kernel_count",),
)
IMPOSTOR = structs.replace(NUM_KERNELS, name="iter_time", aliases=())
WITHOUT_HEADLINE = structs.replace(NUM_KERNELS, name="other", aliases=(), headline="absent")
NOT_A_METRIC = "a text"
