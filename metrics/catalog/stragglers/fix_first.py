"""The largest losses of time of a job, described in words with an example of each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import (
    device_answer,
    device_ranks,
    require_communication_on_device,
)
from ccltui.metrics.findings.rank_time.partition import OTHERS, UNKNOWN, Part, partition, place_of
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.parsers.numbers import percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

SHOWN: Final = 3

_IDLE: Final = {
    "data_loading": "the device is idle while the host loads data",
    "checkpoint": "the device is idle while the host saves a checkpoint",
    "garbage_collection": "the device is idle while the host collects garbage",
    "compilation": "the device is idle while the host compiles or loads kernels",
    "allocation": "the device is idle while the host allocates memory",
    "synchronisation": "the device is idle while the host waits for it or for a stream",
    "operators": "the device is idle while the host is still in operators: launches come late",
    "between_markers": "the device is idle between two steps while the host runs nothing "
    "that was recorded",
    "host_other": "the device waits for launches while no recorded work runs on the host",
    "launch_latency": "the device is idle between a launch and its start",
    "launch_call": "the device is idle while the host is in one long call that launches work",
    "between_kernels": "the device is idle in short gaps between kernels",
    "dependency": "launched work waits for another stream or an event",
    UNKNOWN: "the device is idle for a reason that is not recorded",
}


@metric(
    unit="ratio",
    definition=(
        "Share of the measured time of all ranks that the three largest losses take; the losses "
        "are a complete division of the time in which no kernel computes: waiting for a late "
        "rank, exposed communication, bubble (communication between pipeline stages), copies, and "
        "idle time by cause."
    ),
    needs=("GPU kernels",),
    facts=("partition",),
    keys=("top_loss_ratio", "lost_ratio", "lost_ms", "window_ms", "losses", "per_rank"),
    label="largest losses",
    higher_is_better=False,
    category="time",
)
def fix_first(view: View) -> Result:
    """Divide the time without computation and describe the largest parts."""
    ranks = device_ranks(view)
    require_communication_on_device(ranks)
    divided = partition(view)
    window, found = sum(divided.span_ns.values()), divided.losses
    lost = sum(loss.total_ns for loss in found)
    rows = [_row(view, loss, window, len(ranks)) for loss in found]
    top = sum(loss.total_ns for loss in found[:SHOWN])
    lost_by: Counter[str] = Counter()
    for loss in found:
        lost_by.update(loss.by_rank)
    details: dict[str, Any] = {
        "top_loss_ratio": ratio(top, window),
        "lost_ratio": ratio(lost, window),
        "lost_ms": milliseconds(lost) / len(ranks),
        "window_ms": milliseconds(window) / len(ranks),
        "losses": rows,
        "per_rank": {rank.label: {"lost_ms": milliseconds(lost_by[rank.label])} for rank in ranks},
    }
    return device_answer(
        fix_first,
        view,
        details,
        basis={
            "lost": "no kernel computes; the losses add up to it; time in several counts "
            "for the first of these: waiting, communication or bubble, copies, idle",
            "waiting": "exposed time before the last rank of a collective arrived, by that rank or "
            "the one that delayed it",
            "aggregate": "ms are means over ranks, shares come from sums",
        },
    )


def _row(view: View, loss: Part, window_ns: int, num_ranks: int) -> dict[str, Any]:
    lost_ms, share = milliseconds(loss.total_ns) / num_ranks, ratio(loss.total_ns, window_ns)
    part = "" if share is None else f", {percent(share)} of the time"
    return {
        "kind": loss.kind,
        "what": loss.what,
        "lost_ms": lost_ms,
        "share": share,
        "sentence": f"{time_text(lost_ms)} per rank{part}: {_words(view, loss)}",
        "evidence": place_of(view, loss),
    }


def _words(view: View, loss: Part) -> str:
    if loss.kind == "straggler":
        if loss.what == OTHERS:
            return "ranks wait for others that come late now and then"
        if all(rank.label != loss.what for rank in view.job.ranks):
            return f"the others wait for rank {loss.what}, of which no trace was read"
        return f"the others wait for rank {loss.what}, which comes late"
    if loss.kind == "communication":
        name = "communication" if loss.what == UNKNOWN else loss.what
        return f"{name} is not hidden by computing"
    if loss.kind == "bubble":
        return f"pipeline stages wait for each other in {loss.what}"
    if loss.kind == "copies":
        return "copies run while nothing computes"
    return _IDLE[loss.what]


metric_cal = fix_first.document_of
