"""Networks and links that NCCL reported, and its warnings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ccltui.metrics.cluster.cluster_files import cluster_answer, cluster_of
from ccltui.metrics.metric import metric

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.cluster.nccl_log import NcclLog


@metric(
    unit="warnings",
    definition=(
        "Number of warnings in the logs of NCCL; the details list the networks, cards and "
        "transports that it chose."
    ),
    needs=("log of NCCL (NCCL_DEBUG=INFO)",),
    keys=(
        "num_warnings",
        "versions",
        "networks",
        "cards",
        "transports",
        "hosts",
        "channels",
        "nvlink_domains",
        "warnings_by_text",
    ),
    label="NCCL warnings",
    higher_is_better=False,
    needs_traces=False,
)
def nccl_transport(view: View) -> Result:
    """Sums over all logs of NCCL below the directory."""
    files = cluster_of(view, "logs", "log of NCCL")
    links: Counter[str] = Counter()
    for _, log in files.logs:
        links.update(log.transports)
    logs = [log for _, log in files.logs]
    warned = [(path, warning) for path, log in files.logs for warning in log.warnings]
    networks = _distinct([name for log in logs for name in log.networks])
    details: dict[str, Any] = {
        "num_warnings": sum(warning.count for _, warning in warned),
        "versions": _distinct([log.version for log in logs if log.version]),
        "networks": networks,
        "cards": _distinct([card for log in logs for card in log.cards]),
        "transports": dict(links.most_common()),
        "hosts": _distinct([host for log in logs for host in log.hosts]),
        "channels": max((log.coll_channels or log.rings for log in logs), default=None),
        "nvlink_domains": _domains(logs),
        "warnings_by_text": [
            {"text": w.text, "count": w.count, "file": path, "line": w.line, "host": w.host}
            for path, w in warned
        ],
    }
    warnings = [f"{path}:{w.line}: {w.text} ({w.count} times)" for path, w in warned[:8]]
    if any("socket" in name.lower() for name in networks):
        warnings.append("the network is Socket: NCCL found no InfiniBand or RoCE it could use")
    if len(details["versions"]) > 1:
        warnings.append(f"different versions of NCCL: {', '.join(details['versions'])}")
    if files.logs_left_out:
        warnings.append(f"{files.logs_left_out} further logs are not read")
    return cluster_answer(
        nccl_transport,
        view,
        details,
        paths=[path for path, _ in files.logs],
        files=files,
        basis={"links": "between two ranks, by transport, each log's own"},
        warnings=warnings,
    )


def _domains(logs: list[NcclLog]) -> list[dict[str, Any]]:
    """Hosts and number of devices of each NVLink domain, in order of appearance."""
    found: dict[str, list[str]] = {}
    devices = {(one.host, one.bus): one for log in logs for one in log.fabric}
    for one in devices.values():
        found.setdefault(one.domain, []).append(one.host)
    return [
        {"domain": name, "hosts": _distinct(hosts), "num_devices": len(hosts)}
        for name, hosts in found.items()
    ]


def _distinct(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


metric_cal = nccl_transport.document_of
