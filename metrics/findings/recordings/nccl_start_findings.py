"""What a log of NCCL shows that has neither an error nor anything else: how far its start came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ccltui.metrics.cluster.cluster_files import read_cluster
from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Finding
from ccltui.metrics.view.words import sentence
from ccltui.parsers.numbers import counted
from ccltui.parsers.safe_text import listed

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_SHOWN: Final = 4
_DO: Final = (
    "If the job hangs, look at the ranks that are missing here, at the network that NCCL chose "
    "(NCCL_SOCKET_IFNAME, NCCL_IB_HCA), and test it alone with nccl-tests; where NCCL has started, "
    "PyTorch's flight recorder shows the collective (TORCH_NCCL_TRACE_BUFFER_SIZE=2000)."
)


def nccl_start(view: View) -> Iterator[Finding]:
    """Yield on how many ranks NCCL has started, by its logs."""
    found = [log for _, log in read_cluster(view.job.discovery).logs]
    if not found:
        return
    world = max((log.world_size or 0 for log in found), default=0)
    done = sum(log.initialised for log in found)
    hosts = list(dict.fromkeys(host for log in found for host in log.hosts))
    transports = list(dict.fromkeys(name for log in found for name in log.transports))
    networks = list(dict.fromkeys(name for log in found for name in log.networks))
    on_hosts = f" on {counted(len(hosts), 'host')}" if hosts else ""
    text = f"NCCL's log{on_hosts} has no error"
    communicators = max((log.communicators for log in found), default=0)
    if world and done and communicators <= 1:
        text += f"; {min(done, world):,} of {world:,} ranks print that their start is complete"
    elif done:
        text += f"; {counted(done, 'start is', 'starts are')} complete"
    else:
        text += ", and no rank prints that its start is complete"
    more = [
        f"links between ranks: {listed(transports, _SHOWN)}" if transports else "",
        f"networks: {listed(networks, _SHOWN)}" if networks else "",
    ]
    yield Finding(
        kind="run_log",
        text=sentence(text),
        more=" ".join(sentence(one) for one in more if one),
        saves_why="such a log has no times",
        sure=Sure(what="high"),
        do=_DO,
    )
