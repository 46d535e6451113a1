"""Results of metrics computed from side files, which gaps in the traces do not affect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ccltui.metrics.result import Reason, Result
from ccltui.metrics.view.provenance import inputs_of

if TYPE_CHECKING:
    from ccltui.metrics.metric_definition import MetricDefinition
    from ccltui.metrics.view.job_view import View


def side_answer(
    metric: MetricDefinition,
    view: View,
    details: Mapping[str, Any],
    *,
    files: Sequence[str],
    basis: Mapping[str, str],
    reasons: Sequence[Reason] = (),
    warnings: Sequence[str] = (),
) -> Result:
    """Return the result of a metric computed from side files.

    Args:
        metric: the metric.
        view: the job beside which the files were found.
        details: value of each key of the metric; that of its headline is the value.
        files: paths of the side files.
        basis: how the numbers were obtained.
        reasons: why the result is partial; reasons of the traces are not added.
        warnings: the warnings of the result.
    """
    return Result(
        metric=metric.name,
        unit=metric.unit,
        definition=metric.definition,
        status="partial" if reasons else "ok",
        value=details[metric.headline],
        details=details,
        reasons=tuple(reasons),
        warnings=tuple(warnings),
        source="side_file",
        basis=basis,
        inputs={**inputs_of(view), "side_files": list(files)},
    )
