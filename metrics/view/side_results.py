"""Results that side files answer: what the traces lack does not touch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ccltui.metrics.result import Reason, Result

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
    """The result of a metric from ``files``; only its own reasons make it partial."""
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
        inputs={**view.inputs, "side_files": list(files)},
    )
