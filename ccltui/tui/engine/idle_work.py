"""Once everything is computed: import what keys need only later, and release memory.

Without these imports the first use of such a key would wait.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ccltui.parsers.machine_limits import trim_heap
from ccltui.parsers.store.column_store import release
from ccltui.tui.engine import array_transfer, packed_findings

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

OF_SCREEN: Final = (
    "ccltui.tui.panes.collective_drawer",
    "ccltui.tui.panes.event_drawer",
    "ccltui.tui.input.picker",
    "ccltui.tui.input.prompts",
    "ccltui.tui.help_page",
)
"""Modules of the process that draws."""
OF_ANSWERS: Final = (
    "ccltui.metrics.inspection.event_report",
    "ccltui.metrics.findings.causes.instance_report",
)
"""Modules of the process that computes."""


def import_modules(names: Iterable[str]) -> None:
    """Import modules by name."""
    for name in names:
        importlib.import_module(name)


def release_memory(job: Job, *, heap: bool) -> None:
    """Release the pages of mapped columns and arrays, and with ``heap`` what was freed."""
    for trace in job.ranks:
        release(trace)
    packed_findings.forget_details()
    array_transfer.release_pages()
    if heap:
        trim_heap()
