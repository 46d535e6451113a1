"""``--list-metrics`` of ``ccltui`` and ``ccl-metrics``: list the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.report.output import print_message, write_report
from ccltui.report.text_layout import table, text_bytes

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric

HEADER = ("name", "unit", "needs", "definition")


def run() -> int:
    """Print name, unit, requirements and definition of every metric, and broken plug-ins."""
    from ccltui.metrics import registry  # noqa: PLC0415

    rows = [
        (metric.name, metric.unit, "; ".join(metric.needs), metric.definition + _note(metric))
        for metric in registry.metrics().values()
    ]
    write_report(text_bytes(table(HEADER, rows)), None)
    print_broken_plugins()
    return 0


def _note(metric: Metric) -> str:
    return "" if metric.in_all else " Not in all: ask for it by name."


def run_names() -> int:
    """Print the names only, in the format of ``ccl-metrics``."""
    from ccltui.metrics import registry  # noqa: PLC0415

    lines = ["Available metrics:", *(f"  - {name}" for name in registry.metrics())]
    write_report(text_bytes(lines), None)
    print_broken_plugins()
    return 0


def print_broken_plugins() -> None:
    """Print one line on standard error for each plug-in that could not be loaded."""
    from ccltui.metrics import registry  # noqa: PLC0415

    for name, problem in registry.broken():
        print_message(f"metric plug-in {name} is skipped: {problem}")
