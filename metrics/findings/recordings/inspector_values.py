"""The answer on the Prometheus text of NCCL Inspector: bandwidths at one moment, as a table."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Answer, Finding, Where
from ccltui.metrics.inspector.late_roots import SLOW_SHARE
from ccltui.metrics.inspector.rolled_job import LEAST_LAG_US, LEAST_SHARE, ROOTED
from ccltui.metrics.view.words import sentence
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.inspector import NCCL_INSPECTOR_PROM
from ccltui.parsers.numbers import counted, percent, time_text
from ccltui.parsers.safe_text import listed

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.inspector.read_records import Gauge

_RATES: Final = ("nccl_bus_bandwidth_gbs", "nccl_p2p_bus_bandwidth_gbs")
_TIMES: Final = ("nccl_collective_exec_time_microseconds", "nccl_p2p_exec_time_microseconds")
_SHOWN: Final = 6
_DO: Final = (
    "Write JSON lines with Inspector (NCCL_INSPECTOR_PROM_DUMP=0): they hold each collective, and "
    "show which ranks arrive late and which groups are slow."
)
_ONE_MOMENT: Final = "values of one moment do not tell how long a step takes"
_NO_WAITING: Final = ROOTED | {"Send", "Recv"}
_MOST_DEVICES: Final = 3
_Device = tuple[str, str]
"""Host, and name of the device there."""


def values_answer(view: View) -> Answer | None:
    """Return the bandwidths that devices reached last, None where there are no such values."""
    from ccltui.parsers.inspector.read_records import read_prometheus  # noqa: PLC0415

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
    kinds = _kinds(gauges)
    rows = [_reached(kind) for kind in kinds]
    devices = len({(one.node, one.gpu) for one in gauges})
    text = "no value of NCCL Inspector can be read"
    if rows:
        text = f"{rows[0]} on {counted(devices, 'device')}, at the last dump of NCCL Inspector"
    parts = [*rows[1:_SHOWN], f"{counted(lines, 'line')} could not be read" if lines else ""]
    reached = Finding(
        kind="run_log",
        text=sentence(text),
        more=" ".join(sentence(one) for one in (*parts, *unread) if one),
        saves_why=_ONE_MOMENT,
        sure=Sure(what="high"),
        do=_DO,
    )
    causes = [one for kind in kinds for one in (_late(kind), _slow(kind)) if one is not None]
    unknown = (
        "The text for Prometheus holds the means of one interval and no rank: what is late or slow "
        "in it may be so for a moment only.",
    )
    return Answer(recording="logs", findings=(*causes[:_SHOWN], reached), unknown=unknown)


class _Kind(Struct):
    """One operation and range of sizes of communicators of one name; values by device."""

    communicator: str
    operation: str
    size: str
    n_ranks: int
    n_nodes: int
    rates: dict[_Device, float]
    times_us: dict[_Device, float]

    @property
    def name(self) -> str:
        """Operation, sizes and communicator."""
        where = self.communicator or "a communicator without a name"
        return f"{self.operation} of {self.size} in {where}"


def _kinds(gauges: list[Gauge]) -> list[_Kind]:
    found: dict[tuple[str, str, str], _Kind] = {}
    for one in gauges:
        key = one.communicator, one.operation, one.size
        kind = found.setdefault(
            key, _Kind(*key, _number(one.n_ranks), _number(one.n_nodes), {}, {})
        )
        if one.name in _RATES:
            kind.rates[one.node, one.gpu] = one.value
        elif one.name in _TIMES:
            kind.times_us[one.node, one.gpu] = one.value
    return [one for one in found.values() if one.rates]


def _number(label: str) -> int:
    """Return what a label states; 0 where it is not there."""
    return int(label) if label.isdecimal() else 0


def _reached(kind: _Kind) -> str:
    values = sorted(kind.rates.values())
    times = kind.times_us.values()
    takes = f" and takes {time_text(median(times) / 1e3)}" if times else ""
    differ = ""
    if len(values) > 1 and values[0] > 0:
        spread = values[-1] / values[0] - 1
        differ = f" (devices differ by {percent(spread)})" if spread else " (all devices alike)"
        if spread > 1 / SLOW_SHARE - 1:  # of one communicator it is who waits, and no device's own
            differ = f" ({values[0]:.3g} to {values[-1]:.3g} by device)"
    return f"{kind.name} reaches {median(values):.3g} GB/s of bus bandwidth{takes}{differ}"


def _late(kind: _Kind) -> Finding | None:
    """Return the device that is last at a collective: it waits for nobody, and takes least."""
    times = kind.times_us
    # devices of one communicator only: as many of one host may be of as many communicators
    is_one = len(times) == kind.n_ranks and len({node for node, _ in times}) == kind.n_nodes
    if not is_one or len(times) <= 2 or kind.operation in _NO_WAITING:
        return None
    device = min(times, key=lambda one: (times[one], one))
    lag_us = median(times.values()) - times[device]
    if lag_us <= max(LEAST_LAG_US, LEAST_SHARE * times[device]):
        return None
    gpu, node = device[1], device[0]
    return Finding(
        kind="waiting_for_rank",
        text=sentence(
            f"the others wait for {gpu} of {node}: it arrives {time_text(lag_us / 1e3)} late at "
            f"{kind.name}, on average of the last interval (NCCL Inspector)"
        ),
        where=Where(host=node or None, group=kind.communicator or None),
        saves_why=_ONE_MOMENT,
        sure=Sure(what="medium", who="low"),
        do=_DO,
    )


def _slow(kind: _Kind) -> Finding | None:
    """Return the devices below the bandwidth of most, of communicators of one name."""
    usual = median(kind.rates.values())
    slow = sorted(one for one, rate in kind.rates.items() if rate < SLOW_SHARE * usual)
    # in one communicator every device has one transfer: a difference is waiting
    if not slow or kind.n_ranks == 0 or len(kind.rates) <= kind.n_ranks:
        return None
    hosts = {node for node, _ in slow}
    named = listed([f"{gpu} of {node}" for node, gpu in slow], _MOST_DEVICES)
    return Finding(
        kind="slow_link",
        text=sentence(
            f"{kind.name} reaches {median(kind.rates[one] for one in slow):.3g} GB/s of bus "
            f"bandwidth on {named}, {usual:.3g} on the others (NCCL Inspector)"
        ),
        where=Where(host=hosts.pop() if len(hosts) == 1 else None, group=kind.communicator or None),
        saves_why=_ONE_MOMENT,
        sure=Sure(what="medium", who="low"),
        do=_DO,
    )
