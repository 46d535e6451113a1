"""Duration of prefill and decode passes in a trace: a proxy for the latency of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import distribution, milliseconds
from ccltui.metrics.metric import metric
from ccltui.metrics.model.rank_steps import DECODE_LOOP
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.workload.job_steps import (
    PROXY_WARNING,
    iterations_of,
    replicas_of,
    with_guessed_phases,
)

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ms",
    definition=(
        "Median duration in ms of the passes of an inference server, as ranges mark them or its "
        "decode loop shows them, with prefill and decode separate in the details: a proxy for "
        "latencies that only requests show."
    ),
    needs=("ranges of vLLM or SGLang, or passes that the kernels show",),
    facts=("launches",),
    keys=(
        "trace_proxy_iter_ms",
        "trace_proxy_prefill_ms",
        "trace_proxy_decode_iter_ms",
        "prefill_ms",
        "decode_iter_ms",
        "mixed_iter_ms",
        "num_iterations",
        "replicas",
    ),
    label="server pass time (proxy)",
    higher_is_better=False,
)
def trace_proxy_latency(view: View) -> Result:
    """Distributions of the passes of all ranks by phase."""
    if view.card.text("phase") == "training":
        raise refuse(
            "phase_mismatch", "this metric measures inference, and the card states phase training"
        )
    found = [one for rank in view.ranks for one in with_guessed_phases(iterations_of(rank))]
    if not found:
        raise refuse(
            "no_step_markers",
            "no pass of an inference server is marked (execute_context_… of vLLM, run_batch of "
            "SGLang)",
        )
    every = [milliseconds(one.dur_ns) for _, one in found]
    times = {
        phase: distribution([milliseconds(one.dur_ns) for stated, one in found if stated == phase])
        for phase in ("prefill", "decode", "mixed")
    }
    details: dict[str, Any] = {
        "trace_proxy_iter_ms": distribution(every)["p50"],
        "trace_proxy_prefill_ms": times["prefill"]["p50"],
        "trace_proxy_decode_iter_ms": times["decode"]["p50"],
        "prefill_ms": times["prefill"],
        "decode_iter_ms": times["decode"],
        "mixed_iter_ms": times["mixed"],
        "num_iterations": len(every),
        "replicas": [one.to_dict() for one in replicas_of(view)],
    }
    is_named = any(one.batch.phase != "unknown" for _, one in found)
    on_device = all(one.on_device for _, one in found)
    return answer(
        trace_proxy_latency,
        view,
        details,
        source="annotation",
        basis={
            "phase": _phase_basis(view, is_named=is_named),
            "duration": "device work launched in the range" if on_device else "marker",
        },
        warnings=[PROXY_WARNING],
    )


def _phase_basis(view: View, *, is_named: bool) -> str:
    if any(rank.marker == DECODE_LOOP for rank in view.ranks):
        return "the attention kernels of a pass, else whether it replays a graph"
    return "the marker's name" if is_named else "the first pass of a rank is prefill"


metric_cal = trace_proxy_latency.document_of
