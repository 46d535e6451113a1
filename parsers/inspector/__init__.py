"""NCCL Inspector: a line of JSON for each operation of a process, written for days of operation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Rule

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_FIRST_KEY: Final = re.compile(rb'\s*\{\s*"header"\s*:\s*\{')
_VERSION: Final = b'"inspector_output_format_version"'


def _lines(sample: FileSample) -> Match | None:
    is_line = _FIRST_KEY.match(sample.data) and _VERSION in sample.data
    return Match() if is_line else None


NCCL_INSPECTOR: Final = Format(
    kind="nccl_inspector",
    description="records of NCCL Inspector: the operations of one process, with their times",
    sniff=(Rule(Priority.JSON_CONTENT, _lines),),
    has_own_metrics=True,
    read_by_line=True,
)
