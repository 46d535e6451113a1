"""Impossible values in a cluster benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.cluster.cluster_files import cluster_answer, cluster_of, device_peak
from ccltui.metrics.cluster.cluster_table import Implausible, implausible, label_of
from ccltui.metrics.metric import metric

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="values",
    definition=(
        "Number of impossible values in cluster benchmarks: above the peak of the device, above "
        "what its memory or any network card can transfer, or many times another measurement of "
        "the same quantity."
    ),
    needs=("cluster benchmark (YAML)",),
    keys=("num_impossible", "num_suspect", "findings", "device"),
    label="impossible values",
    higher_is_better=False,
    needs_traces=False,
    parameters={"gpu_model": "the device, where no file names it: --set gpu_model=H200"},
)
def cluster_plausibility(view: View) -> Result:
    """Implausible values of every benchmark below the directory."""
    files = cluster_of(view, "benchmarks", "cluster benchmark")
    peak = device_peak(view, files)
    rows = [
        _row(benchmark.path, doubt)
        for benchmark in files.benchmarks
        for doubt in implausible(benchmark, peak, files.card_gbps)
    ]
    places = {(row["file"], row["line"]) for row in rows if row["verdict"] == "impossible"}
    details: dict[str, Any] = {
        "num_impossible": len(places),
        "num_suspect": sum(row["verdict"] == "suspect" for row in rows),
        "findings": rows,
        "device": None if peak is None else peak.name,
    }
    basis = {"device": "not named: only cross-checks" if peak is None else peak.name}
    if peak is not None:
        basis["peaks"] = peak.source
    if files.card_gbps is not None:
        basis["network"] = f"{files.card_gbps:g} GB/s, the network cards of one host"
    return cluster_answer(
        cluster_plausibility,
        view,
        details,
        paths=[benchmark.path for benchmark in files.benchmarks],
        files=files,
        basis=basis,
        warnings=[f"{row['where']}: {row['message']}" for row in rows],
    )


def _row(path: str, doubt: Implausible) -> dict[str, Any]:
    one = doubt.measurement
    return {
        "where": label_of(one),
        "value": one.value,
        "unit": one.unit,
        "verdict": doubt.verdict,
        "message": doubt.message,
        "limit": doubt.limit,
        "file": path,
        "line": one.line,
    }


metric_cal = cluster_plausibility.document_of
