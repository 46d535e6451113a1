"""Time to the first token of a request."""

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
        "Time in ms from the arrival of a request to its first token: median over the requests "
        "of one experiment of a serving benchmark; several experiments are listed, never "
        "averaged."
    ),
    needs=("result file of vLLM, SGLang, genai-perf or AIPerf",),
    keys=(
        "p50_ttft_ms",
        "ttft_ms",
        "source_file",
        "aggregation",
        "num_failed",
        "experiments",
    ),
    aliases=("TTFT",),
    label="time to first token",
    higher_is_better=False,
    needs_traces=False,
    parameters={FILE_OVERRIDE: "the result file whose experiment the value is of"},
)
def ttft(view: View) -> Result:
    """Time from request to first token, of the experiments in result files."""
    return latency(view, ttft, "ttft")


metric_cal = ttft.document_of
