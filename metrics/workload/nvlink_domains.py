"""NVLink domains of ranks, as logs of NCCL state them: GB200 and GB300 NVL72, 18 trays of 4 GPUs.

A domain is what NCCL takes for one: devices of one fabric UUID and clique reach each other over
NVLink, whatever their hosts. A host is a tray. Without such lines nothing is known, also not that
a host is a domain of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ccltui.metrics.cluster.cluster_files import read_cluster
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
