"""Identify the hardware of a job from traces, card and overrides: devices, hosts, links.

A domain of NVLink is what NCCL takes for one: devices of one fabric UUID and clique reach each
other, whatever their hosts. A host is a tray. Without such lines nothing is known, also not that a
host is a domain of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.cluster.cluster_files import read_cluster
from ccltui.metrics.model.peaks import DevicePeak, find_device, precision_of
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.overrides import positive_number
from ccltui.parsers.cluster import NCCL_LOG

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


def nvlink_domains(view: View) -> Mapping[int, str]:
    """Return the name of the domain of each global rank, without ranks of which none is stated.

    By the rank where the log's largest communicator is the whole job, else by the host, all of
    whose devices are then in one domain.
    """
    return view.remember(nvlink_domains, lambda: _domains(view))


def _domains(view: View) -> dict[int, str]:
    if not any(file.format is NCCL_LOG for file in view.job.discovery.files):
        return {}
    logs = [log for _, log in read_cluster(view.job.discovery).logs if log.fabric]
    ranks = [trace.rank for trace in view.job.ranks if trace.rank is not None]
    size = view.world_size or (max(ranks) + 1 if ranks else 0)
    by_rank: dict[int, set[str]] = defaultdict(set)
    by_host: dict[str, set[str]] = defaultdict(set)
    for log in logs:
        for one in log.fabric:
            by_host[_short(one.host)].add(one.domain)
            if one.rank is not None and log.world_size == size:
                by_rank[one.rank].add(one.domain)
    found = {rank: only for rank, domains in by_rank.items() if (only := _only(domains))}
    for trace in view.job.ranks:
        if trace.rank is not None and trace.rank not in by_rank and trace.host:
            domain = _only(by_host.get(_short(trace.host), set()))
            found |= {trace.rank: domain} if domain else {}
    return _named(found)


def crosses_domains(view: View, ranks: Sequence[int]) -> bool | None:
    """Return whether ranks are in several domains; None where it is not stated."""
    domains = nvlink_domains(view)
    known = {domains[rank] for rank in ranks if rank in domains}
    if len(known) > 1:
        return True
    return False if known and all(rank in domains for rank in ranks) else None


def _only(domains: set[str]) -> str:
    return next(iter(domains)) if len(domains) == 1 else ""


def _short(host: str) -> str:
    """Return a host as NCCL names it, without its network."""
    return host.partition(".")[0]


def _named(found: Mapping[int, str]) -> dict[int, str]:
    """Number domains in the order of their ranks: names of the fabric have 37 characters."""
    order = {domain: place for place, domain in enumerate(
        dict.fromkeys(found[rank] for rank in sorted(found)), start=1
    )}  # fmt: skip
    return {rank: f"NVLink domain {order[domain]}" for rank, domain in found.items()}


LINK_OVERRIDE: Final = "link_peak_GBps"
_BANDWIDTH: Final = "workload.hardware.network_topo.bandwidth_gbps"
_BITS_PER_BYTE: Final = 8


class LinkPeak(Struct, frozen=True):
    """Peak rate at which one device sends in one direction, decimal GB/s, and its source."""

    gbps: float
    source: str


def device_names(view: View) -> list[str]:
    """Return the names of the devices of all ranks, the most common first.

    A trace lists every device of its host, so each name counts once per rank. Where traces name no
    device, the one of the card is returned.
    """
    recorded = view.remember(device_names, lambda: _recorded_names(view))
    if recorded:
        return recorded
    stated = view.card.text("gpu_model")
    return [stated] if stated else []


def _recorded_names(view: View) -> list[str]:
    names: Counter[str] = Counter()
    for trace in view.job.ranks:
        names.update({device.name for device in trace.devices if device.name})
    return [name for name, _ in sorted(names.items(), key=lambda item: (-item[1], item[0]))]


def _hosts(view: View) -> dict[int, str]:
    """Return the host of each rank, as its trace names it; the first named where several claim."""

    def make() -> dict[int, str]:
        hosts: dict[int, str] = {}
        for trace in view.job.ranks:
            if trace.rank is not None and not hosts.get(trace.rank):
                hosts[trace.rank] = trace.host
        return hosts

    return view.remember(_hosts, make)


def device_of(view: View) -> DevicePeak | None:
    """Return the device of the job, None where it is not named or not in the table of peaks."""
    return next((peak for name in device_names(view) if (peak := find_device(name))), None)


def crosses_hosts(view: View, ranks: Sequence[int]) -> bool | None:
    """Return whether ranks are on several hosts; None where neither traces nor card state it."""
    if len(ranks) < 2:
        return None
    hosts = _hosts(view)
    known = {hosts[rank] for rank in ranks if hosts.get(rank)}
    if len(known) > 1:
        return True
    per_host = view.card.number("count_per_node")
    if per_host is not None and per_host > 0:
        return len({rank // per_host for rank in ranks}) > 1
    everyone = all(hosts.get(rank) for rank in ranks)
    return False if known and everyone else None


def group_crosses_hosts(view: View, group: int) -> bool | None:
    """Return whether a group (-1: none) is on several hosts, as `crosses_hosts` of its ranks."""
    ranks = view.group(group).ranks if group >= 0 else ()
    return view.remember((group_crosses_hosts, group), lambda: crosses_hosts(view, ranks))


def host_of(view: View, rank: int) -> str | None:
    """Return the host of a global rank, named by its trace or by the card's ranks per host."""
    host = _hosts(view).get(rank)
    if host:
        return host
    per_host = view.card.number("count_per_node")
    return f"host {rank // per_host}" if per_host is not None and per_host > 0 else None


def link_peak(view: View, group: int) -> LinkPeak | None:
    """Return the peak rate of the links of a group, None where it is unknown.

    The override of the user applies first; inside a host or an NVLink domain the links of the
    device; between hosts the scale-out bandwidth of the card, the first of two numbers in Gbit/s.
    """
    given = positive_number(view, LINK_OVERRIDE)
    if given is not None:
        return LinkPeak(given, "override")
    crossing = group_crosses_hosts(view, group)
    if crossing is None:
        return None
    if crossing and crosses_domains(view, view.group(group).ranks) is not False:
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


PEAK_OVERRIDE: Final = "peak_tflops"


class Peak(Struct, frozen=True):
    """TFLOPS of one device in the precision of the model."""

    tflops: float
    source: str
    notes: tuple[str, ...] = ()


def peak_of(view: View) -> Peak:
    """The peak given by the user, otherwise that of the device in the precision of the card."""
    given = positive_number(view, PEAK_OVERRIDE)
    if given is not None:
        return Peak(given, "override")
    device = device_of(view)
    if device is None:
        names = ", ".join(device_names(view))
        found = f"no known peak of {names}" if names else "neither card nor traces name the device"
        raise refuse("unknown_peak", f"{found}: give {PEAK_OVERRIDE}")
    stated = view.card.text("precision")
    if not stated:
        raise view.card.lacking(["precision"])
    precision = precision_of(stated)
    if precision is None or precision not in device.tflops:
        text = f"no known peak of {device.name} in {stated}: give {PEAK_OVERRIDE}"
        raise refuse("unknown_peak", text)
    notes = (device.note,) if device.note else ()
    return Peak(device.tflops[precision], f"{device.name} {precision}, {device.source}", notes)
