"""Read the Prometheus text of NCCL Inspector: values of one device as its last dump left them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.compression import TextChunks

_MOST_BYTES: Final = 4 << 20
"""A line has 250 bytes, and a device hundreds of lines."""
_LINE: Final = re.compile(
    r'(nccl_\w++)\{((?:\w++="(?:[^"\\]++|\\.)*+",?+)*+)\}[ \t]++([-+0-9.eE]++)(?:[ \t]++\d++)?+\s*+'
)
_LABEL: Final = re.compile(r'(\w++)="((?:[^"\\]++|\\.)*+)"')


class Gauge(Struct, frozen=True):
    """One value of a device.

    Attributes:
        name: What it is: ``nccl_bus_bandwidth_gbs``, ``nccl_collective_exec_time_microseconds``, ….
        value: In the unit that the name states.
        node: Host of the device.
        gpu: Its name there.
        communicator: Name of the communicator.
        n_ranks: Number of its ranks, as text.
        n_nodes: Number of their hosts, as text.
        operation: AllReduce, Send, ….
        size: Range of message sizes: ``64-65MB``.
    """

    name: str
    value: float
    node: str
    gpu: str
    communicator: str
    n_ranks: str
    n_nodes: str
    operation: str
    size: str


class PrometheusFile(Struct, frozen=True):
    """The values of a file, and how many lines could not be read."""

    gauges: tuple[Gauge, ...]
    unread: int


def read_prometheus(path: Path, *, shown: str) -> PrometheusFile:
    """Return the values of one device; ``shown`` is its path in messages.

    Raises:
        TraceError: It holds no value, or is longer than any that the writer makes.
        OSError: It cannot be read.
    """
    text = b""
    for chunk in TextChunks(path):
        text += chunk
        if len(text) > _MOST_BYTES:
            raise TraceError(f"is longer than {_MOST_BYTES >> 20} MiB of values", path=shown)
    gauges: list[Gauge] = []
    unread = 0
    for line in text.decode("utf-8", "replace").split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        found = _gauge(line)
        if found is None:
            unread += 1
        else:
            gauges.append(found)
    if not gauges:
        raise TraceError("holds no value of NCCL Inspector", path=shown)
    return PrometheusFile(tuple(gauges), unread)


def _gauge(line: str) -> Gauge | None:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    try:
        value = float(found[3])
    except ValueError:
        return None
    labels: dict[str, str] = dict(_LABEL.findall(found[2]))
    return Gauge(
        name=found[1],
        value=value,
        node=labels.get("node", ""),
        gpu=labels.get("gpu", ""),
        communicator=labels.get("comm_name", ""),
        n_ranks=labels.get("nranks", ""),
        n_nodes=labels.get("n_nodes", ""),
        operation=labels.get("collective") or labels.get("p2p_operation", ""),
        size=labels.get("message_size", ""),
    )
