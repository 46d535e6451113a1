"""Select files and build results for the metrics of machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ccltui.metrics.cluster.cluster_files import ClusterFiles, read_cluster
from ccltui.metrics.model.peaks import DevicePeak, find_device
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.provenance import require_traces, side_answer

if TYPE_CHECKING:
    from ccltui.metrics.metric_definition import MetricDefinition
    from ccltui.metrics.view.job_view import View


def cluster_of(view: View, part: str, what: str) -> ClusterFiles:
    """Return the files about machines.

    Raises:
        Refusal: No file of ``part`` (a field of `ClusterFiles`) could be read.
    """
    if not view.job.ranks and not view.job.discovery.files:
        require_traces(view)
    files = read_cluster(view.job.discovery)
    if getattr(files, part):
        return files
    problems = [Reason("no_side_file", problem) for problem in files.problems]
    if problems:
        raise Refusal(Reason("no_side_file", f"no {what} that can be read"), *problems)
    raise refuse("no_side_file", f"no {what} here")


def device_peak(view: View, files: ClusterFiles) -> DevicePeak | None:
    """Return the device named by the user or the card, else by the files; None if not known."""
    names = [view.card.text("gpu_model"), *files.device_names]
    return next((peak for name in names if name and (peak := find_device(name))), None)


def cluster_answer(
    metric: MetricDefinition,
    view: View,
    details: Mapping[str, Any],
    *,
    paths: Sequence[str],
    files: ClusterFiles,
    basis: Mapping[str, str],
    warnings: Sequence[str] = (),
    reasons: Sequence[Reason] = (),
) -> Result:
    """Return the result of a metric of machines."""
    return side_answer(
        metric,
        view,
        details,
        files=list(dict.fromkeys(paths)),
        basis=basis,
        warnings=(*warnings, *files.problems),
        reasons=reasons,
    )
