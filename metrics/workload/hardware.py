"""The hardware that a job ran on, as far as traces, card and user tell: device and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ccltui.metrics.model.peaks import DevicePeak, find_device
from ccltui.metrics.unavailable import refuse

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

LINK_OVERRIDE: Final = "link_peak_GBps"
_BANDWIDTH: Final = "workload.hardware.network_topo.bandwidth_gbps"
_BITS_PER_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class LinkPeak:
    """What one device can send in one direction, decimal GB/s, and who says so."""

    gbps: float
    source: str


def device_names(view: View) -> list[str]:
    """Names of the devices of all ranks, the commonest first; of the card where traces have none.

    A trace lists every device of its host: one name a rank counts.
    """
    names: Counter[str] = Counter()
    for trace in view.job.ranks:
        names.update({device.name for device in trace.devices if device.name})
    if names:
        return [name for name, _ in sorted(names.items(), key=lambda item: (-item[1], item[0]))]
    stated = view.card.text("gpu_model")
    return [stated] if stated else []


def device_of(view: View) -> DevicePeak | None:
    """The known device that the job ran on, None where it is not named or not known."""
    return next((peak for name in device_names(view) if (peak := find_device(name))), None)


def positive_number(view: View, name: str) -> float | None:
    """An override that must be a number above 0, None where it is not given."""
    text = view.card.text(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise refuse("card_invalid", f"{name} = {text!r} is not a number above 0")
    return value


def crosses_hosts(view: View, ranks: Sequence[int]) -> bool | None:
    """Whether ranks sit on several hosts; None where neither traces nor card tell."""
    if len(ranks) < 2:
        return None
    hosts = {trace.rank: trace.host for trace in view.job.ranks if trace.rank is not None}
    known = {hosts[rank] for rank in ranks if hosts.get(rank)}
    if len(known) > 1:
        return True
    per_host = view.card.number("count_per_node")
    if per_host is not None and per_host > 0:
        return len({rank // per_host for rank in ranks}) > 1
    everyone = all(hosts.get(rank) for rank in ranks)
    return False if known and everyone else None


def host_of(view: View, rank: int) -> str | None:
    """Host of a global rank as its trace names it, else by the ranks per host of the card."""
    for trace in view.job.ranks:
        if trace.rank == rank and trace.host:
            return trace.host
    per_host = view.card.number("count_per_node")
    return f"host {rank // per_host}" if per_host is not None and per_host > 0 else None


def link_peak(view: View, group: int) -> LinkPeak | None:
    """Peak of the links that a group communicates over, None where nothing tells it.

    The user's word first; inside a host the device's fabric; between hosts what the card states
    as its scale-out bandwidth, the first of two numbers in Gbit/s.
    """
    given = positive_number(view, LINK_OVERRIDE)
    if given is not None:
        return LinkPeak(given, "override")
    ranks = view.groups[group].ranks if group >= 0 else ()
    crossing = crosses_hosts(view, ranks)
    if crossing is None:
        return None
    if crossing:
        return _scale_out(view)
    device = device_of(view)
    if device is None or device.link_gbps is None:
        return None
    return LinkPeak(device.link_gbps, f"{device.name}, {device.link_source}")


def _scale_out(view: View) -> LinkPeak | None:
    card = view.card.card
    stated = None if card is None else card.values.get(_BANDWIDTH)
    if not isinstance(stated, tuple) or len(stated) < 2:
        return None
    gigabits = stated[0]
    if isinstance(gigabits, bool) or not isinstance(gigabits, int | float) or gigabits <= 0:
        return None
    return LinkPeak(gigabits / _BITS_PER_BYTE, f"card, {gigabits:g} Gbit/s between hosts")
