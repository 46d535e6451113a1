"""``--list-metrics`` of both commands."""

from __future__ import annotations

from ccltui.report.output import say, write_report
from ccltui.report.text_layout import table, text_bytes

HEADER = ("name", "unit", "needs", "definition")


def run() -> int:
    """Print name, unit, definition and needs of every metric; tell which plug-ins are broken."""
    from ccltui.metrics import registry  # noqa: PLC0415

    rows = [
        (metric.name, metric.unit, "; ".join(metric.needs), metric.definition)
        for metric in registry.metrics().values()
    ]
    write_report(text_bytes(table(HEADER, rows)), None)
    tell_broken()
    return 0


def run_names() -> int:
    """Print the names only, in the form that ``ccl-metrics`` promises."""
    from ccltui.metrics import registry  # noqa: PLC0415

    lines = ["Available metrics:", *(f"  - {name}" for name in registry.metrics())]
    write_report(text_bytes(lines), None)
    tell_broken()
    return 0


def tell_broken() -> None:
    """One line on standard error for each plug-in that could not be loaded."""
    from ccltui.metrics import registry  # noqa: PLC0415

    for name, problem in registry.broken():
        say(f"metric plug-in {name} is skipped: {problem}")
