"""Import what keys need only later, once everything is computed: else their first use waits."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Final

OF_SCREEN: Final = (
    *(
        f"ccltui.tui.panes.details.{name}"
        for name in ("causal_picture", "event_page", "comparison")
    ),
    *(f"ccltui.tui.input.{name}" for name in ("picker", "command_palette", "prompts")),
    "ccltui.tui.chrome.help_page",
)
"""Modules of the process that draws."""
OF_ANSWERS: Final = (
    "ccltui.tui.engine.analysis",
    "ccltui.metrics.inspection.event_report",
    "ccltui.metrics.inspection.event_collective",
    "ccltui.metrics.findings.causes.instance_report",
)
"""Modules of the process that computes."""


def import_modules(names: Iterable[str]) -> None:
    """Import modules by name."""
    for name in names:
        importlib.import_module(name)
