"""Time to the first token of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.metrics.metric_cal import metric_cal as metric_cal_of
from ccltui.metrics.registry import Metric
from ccltui.metrics.workload.serving_latency import FILE_OVERRIDE, latency

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


def compute(view: View) -> Result:
    """From request to first token, of the experiments in result files."""
    return latency(view, METRIC, "ttft")


METRIC = Metric(
    name="ttft",
    unit="ms",
    definition=(
        "Time from the arrival of a request to its first token: median over the requests of one "
        "experiment of a serving benchmark; several experiments are listed, never averaged."
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
    headline="p50_ttft_ms",
    compute=compute,
    aliases=("TTFT",),
    label="time to first token",
    higher_is_better=False,
    category="inference",
    needs_traces=False,
    parameters={FILE_OVERRIDE: "the result file whose experiment the value is of"},
)
metric_cal = metric_cal_of(METRIC.name)
