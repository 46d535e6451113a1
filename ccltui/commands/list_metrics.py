"""``--list-metrics`` of ``ccltui`` and ``ccl-metrics``: list the metrics."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from ccltui.report.output import print_message, write_report
from ccltui.report.text_layout import text_bytes

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric

WIDTH: Final = 100
INDENT: Final = "    "


def run() -> int:
    """Print unit, definition, requirements and parameters of every metric, and broken plug-ins."""
    from ccltui.metrics import registry  # noqa: PLC0415

    lines = [line for metric in registry.metrics().values() for line in _entry(metric)]
    write_report(text_bytes(lines), None)
    print_broken_plugins()
    return 0


def _entry(metric: Metric) -> list[str]:
    """Lines about one metric; only its name starts at the margin."""
    texts = [metric.definition, f"Needs: {'; '.join(metric.needs)}."]
    texts += [f"--set {name}=…: {meaning}." for name, meaning in metric.parameters.items()]
    if not metric.in_all:
        texts.append("all leaves it out: ask for it by name.")
    return [f"{metric.name} [{metric.unit}]", *(line for text in texts for line in _wrapped(text))]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False
    )


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

    for one in registry.broken():
        print_message(one.text)
