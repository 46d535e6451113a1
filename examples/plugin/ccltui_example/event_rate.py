"""How many kernels and copies the devices start per millisecond."""

from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.provenance import answer


@metric(
    unit="1/ms",
    definition="Kernels and copies that start in the measured time, per millisecond and rank.",
    needs=("GPU kernels",),
    keys=("event_rate", "per_rank"),
    headline="event_rate",
    category="kernels",
)
def event_rate(view: View) -> Result:
    """Divide the device events of all ranks by their measured time."""
    counts: dict[str, int] = {}
    measured_ns = 0
    for rank in device_ranks(view):
        starts = rank.trace.group("gpu").start_ns
        counts[rank.label] = int(rank.windows.contains(starts).sum())
        measured_ns += rank.windows.total_ns
    if not measured_ns:
        raise refuse("window_empty", "the measured time is empty")
    details = {"event_rate": sum(counts.values()) / (measured_ns / 1e6), "per_rank": counts}
    return answer(event_rate, view, details, source="kernel")
