"""Devices of a cluster benchmark that differ from their peers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ccltui.metrics.cluster.cluster_files import cluster_answer, cluster_of
from ccltui.metrics.cluster.cluster_table import FLOOR_PCT, LEAST_PEERS, K, Peers, name_of, peers_of
from ccltui.metrics.metric import metric
from ccltui.metrics.unavailable import refuse

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="values",
    definition=(
        "Number of values in cluster benchmarks that differ from the median of the same test on "
        "the other devices or hosts by more than 3.5 scaled median absolute deviations and 5 % "
        "of the median."
    ),
    needs=("cluster benchmark (YAML) with values of at least 3 devices or hosts",),
    keys=("num_outliers", "outliers", "tests"),
    label="outlier devices",
    higher_is_better=False,
    needs_traces=False,
    parameters={
        "outlier_mads": "scaled median absolute deviations beyond which a value is an outlier",
        "outlier_floor_pct": "percent of the median that an outlier differs by at least",
    },
)
def cluster_outliers(view: View) -> Result:
    """Outliers of every test with values of several devices or hosts."""
    files = cluster_of(view, "benchmarks", "cluster benchmark")
    k, floor = _number(view, "outlier_mads", K), _number(view, "outlier_floor_pct", FLOOR_PCT)
    groups = [
        (benchmark.path, peers)
        for benchmark in files.benchmarks
        for peers in peers_of(benchmark, k=k, floor_pct=floor)
    ]
    if not groups:
        message = f"no test has values of {LEAST_PEERS} devices or hosts"
        raise refuse("not_applicable", message)
    outliers = [row for path, peers in groups for row in _outliers(path, peers)]
    details: dict[str, Any] = {
        "num_outliers": len(outliers),
        "outliers": outliers,
        "tests": [_row(path, peers) for path, peers in groups],
    }
    return cluster_answer(
        cluster_outliers,
        view,
        details,
        paths=[benchmark.path for benchmark in files.benchmarks],
        files=files,
        basis={"rule": f"beyond {k:g} scaled MADs and {floor:g} % of the median"},
        warnings=[row["message"] for row in outliers],
    )


def _outliers(path: str, peers: Peers) -> list[dict[str, Any]]:
    found = []
    for index in peers.outliers:
        one = peers.measurements[index]
        deviation = peers.deviation_pct(index)
        found.append(
            {
                "where": name_of(one),
                "test": one.test,
                "value": one.value,
                "unit": peers.unit,
                "median": peers.median,
                "mad": peers.mad,
                "deviation_pct": deviation,
                "file": path,
                "line": one.line,
                "message": (
                    f"{name_of(one)}: {one.test} {one.value:g} {peers.unit}, {deviation:+.0f} % "
                    f"against the median {peers.median:g} of {len(peers.measurements)}"
                ),
            }
        )
    return found


def _row(path: str, peers: Peers) -> dict[str, Any]:
    return {
        "test": peers.test,
        "unit": peers.unit,
        "n": len(peers.measurements),
        "median": peers.median,
        "mad": peers.mad,
        "values": {name_of(one): one.value for one in peers.measurements},
        "file": path,
    }


def _number(view: View, name: str, default: float) -> float:
    text = view.card.text(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and value >= 0):
        raise refuse("card_invalid", f"{name} = {text!r} is not a number from 0")
    return value


metric_cal = cluster_outliers.document_of
