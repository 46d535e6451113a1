"""NCCL Inspector: a line of JSON for each operation, or text for Prometheus of one moment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Rule

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_FIRST_KEY: Final = re.compile(rb'\s*\{\s*"header"\s*:\s*\{')
_VALUES: Final = re.compile(
    rb"(?:\#[^\n]*+\n)*+nccl_(?:(?:p2p_)?bus_bandwidth_gbs|(?:collective|p2p)_exec_time_microseconds"
    rb"|collectives_(?:dropped_)?total|p2p_total)\{"
)
_VERSION: Final = b'"inspector_output_format_version"'


def _lines(sample: FileSample) -> Match | None:
    is_line = _FIRST_KEY.match(sample.data) and _VERSION in sample.data
    return Match() if is_line else None


def _values(sample: FileSample) -> Match | None:
    return Match() if _VALUES.match(sample.data) else None


NCCL_INSPECTOR: Final = Format(
    kind="nccl_inspector",
    description="records of NCCL Inspector: the operations of one process, with their times",
    sniff=(Rule(Priority.JSON_CONTENT, _lines),),
    has_own_metrics=True,
    read_by_line=True,
)
NCCL_INSPECTOR_PROM: Final = Format(
    kind="nccl_inspector_prom",
    description="text of NCCL Inspector for Prometheus: bandwidths of a device at the last dump",
    sniff=(Rule(Priority.TEXT_BANNER, _values),),
    has_own_metrics=True,
    read_by_line=True,
)
