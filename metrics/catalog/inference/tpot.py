"""Time per output token after the first, and the gaps between tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.metrics.metric import metric
from ccltui.metrics.workload.serving_latency import FILE_OVERRIDE, latency

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="ms",
    definition=(
        "Time in ms per output token: time from the first to the last token divided by the "
        "number of tokens after the first, median over requests with more than one token; the "
        "details list the gaps between tokens."
    ),
    needs=("result file of vLLM, SGLang, genai-perf or AIPerf",),
    keys=(
        "p50_tpot_ms",
        "tpot_ms",
        "itl_ms",
        "source_file",
        "aggregation",
        "num_failed",
        "experiments",
    ),
    aliases=("TPOT",),
    label="time per output token",
    higher_is_better=False,
    needs_traces=False,
    parameters={FILE_OVERRIDE: "the result file whose experiment the value is of"},
)
def tpot(view: View) -> Result:
    """Time from first to last token over the number of tokens after the first, of result files."""
    return latency(view, tpot, "tpot", ("itl",))


metric_cal = tpot.document_of
