"""The answer on the Prometheus text of NCCL Inspector: bandwidths at one moment, as a table."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Answer, Finding
from ccltui.metrics.view.words import sentence
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.inspector import NCCL_INSPECTOR_PROM
from ccltui.parsers.numbers import counted, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.inspector.read_prometheus import Gauge

_RATES: Final = ("nccl_bus_bandwidth_gbs", "nccl_p2p_bus_bandwidth_gbs")
_TIMES: Final = ("nccl_collective_exec_time_microseconds", "nccl_p2p_exec_time_microseconds")
_SHOWN: Final = 6
_DO: Final = (
    "Write JSON lines with Inspector (NCCL_INSPECTOR_PROM_DUMP=0): they hold each collective, and "
    "show which ranks arrive late and which groups are slow."
)
_Kind = tuple[str, str, str]
"""Communicator, operation and range of sizes."""


def values_answer(view: View) -> Answer | None:
    """Return the bandwidths that devices reached last, None where there are no such values."""
    from ccltui.parsers.inspector.read_prometheus import read_prometheus  # noqa: PLC0415

    files = [one for one in view.job.discovery.files
             if one.format is NCCL_INSPECTOR_PROM and one.duplicate_of is None]  # fmt: skip
    if not files:
        return None
    gauges: list[Gauge] = []
    unread, lines = list[str](), 0
    for file in files:
        try:
            with contained(file.path):
                found = read_prometheus(Path(file.real_path), shown=file.path)
        except TraceError as error:
            unread.append(str(error))
        else:
            gauges += found.gauges
            lines += found.unread
    rows = _rows(gauges)
    devices = len({(one.node, one.gpu) for one in gauges})
    text = "no value of NCCL Inspector can be read"
    if rows:
        text = f"{rows[0]} on {counted(devices, 'device')}, at the last dump of NCCL Inspector"
    parts = [*rows[1:_SHOWN], f"{counted(lines, 'line')} could not be read" if lines else ""]
    finding = Finding(
        kind="run_log",
        text=sentence(text),
        more=" ".join(sentence(one) for one in (*parts, *unread) if one),
        saves_why="values of one moment do not tell how long a step takes",
        sure=Sure(what="high"),
        do=_DO,
    )
    unknown = (
        "The text for Prometheus holds one moment and no rank, so it does not show who is late.",
    )
    return Answer(recording="logs", findings=(finding,), unknown=unknown)


def _rows(gauges: list[Gauge]) -> list[str]:
    """Return a sentence for each communicator, operation and size, the slowest device in it."""
    rates: dict[_Kind, list[Gauge]] = defaultdict(list)
    times: dict[_Kind, list[float]] = defaultdict(list)
    for one in gauges:
        kind = one.communicator, one.operation, one.size
        if one.name in _RATES:
            rates[kind].append(one)
        elif one.name in _TIMES:
            times[kind].append(one.value)
    found = []
    for kind, devices in rates.items():
        communicator, operation, size = kind
        slowest = min(devices, key=lambda one: one.value)
        middle = median(one.value for one in devices)
        takes = f" and takes {time_text(median(times[kind]) / 1e3)}" if times[kind] else ""
        found.append(
            f"{operation} of {size} in {communicator or 'a communicator without a name'} reaches "
            f"{middle:.3g} GB/s of bus bandwidth{takes} (medians of devices; least "
            f"{slowest.value:.3g} on {slowest.gpu} of {slowest.node})"
        )
    return found
