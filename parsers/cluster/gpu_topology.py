"""``nvidia-smi topo -m``: how the devices and network cards of a host are connected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import printable
from ccltui.parsers.text.bounded_text import read_bounded

LINKS: Final = ("X", "SYS", "NODE", "PHB", "PXB", "PIX")
"""Kinds of connection besides NV#, the worst first."""

_BYTES: Final = 1 << 22
_NODE: Final = re.compile(r"GPU\d+|NIC\d+|(?:mlx|bnxt|hfi|efa|irdma|cxi)\w*|mlx\d+_\d+")
_LINK: Final = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|PCIe|SOC|NV\d{1,3}|N/A|\?")
_ALIAS: Final = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class GpuTopology:
    """The matrix: ``links[row][column]`` is the connection as printed (X, NV2, PIX, SYS, …).

    ``aliases`` name what NIC0 and so on are.
    """

    nodes: tuple[str, ...]
    links: Mapping[str, Mapping[str, str]]
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The devices."""
        return tuple(node for node in self.nodes if node.startswith("GPU"))

    def nearest_nics(self, gpu: str) -> tuple[tuple[str, str], ...]:
        """Network cards with the best connection to a device, and that connection."""
        row = self.links.get(gpu, {})
        cards = {node: row[node] for node in self.nodes if node in row and node not in self.gpus}
        known = {node: LINKS.index(link) for node, link in cards.items() if link in LINKS}
        best = max(known.values(), default=None)
        return tuple(
            (self.aliases.get(node, node), cards[node])
            for node, rank in known.items()
            if rank == best
        )


def read_gpu_topology(path: Path, *, shown: str) -> GpuTopology:
    """The matrix. Raises TraceError for a file that cannot be read or holds none."""
    text = read_bounded(path, shown=shown, head_bytes=_BYTES, tail_bytes=0).plain_head
    lines = text.split("\n")
    for number, line in enumerate(lines):
        columns = _columns(line)
        if columns:
            return _matrix(columns, lines[number + 1 :], text)
    raise TraceError("no matrix of nvidia-smi topo -m in it", path=shown, line=1)


def _columns(line: str) -> list[str]:
    """The heading: GPU0 first, and what has a column of links; affinities are none."""
    cells = line.split()
    if not cells or cells[0] != "GPU0" or (len(cells) > 1 and _LINK.fullmatch(cells[1])):
        return []
    return [cell for cell in cells if _NODE.fullmatch(cell)]


def _matrix(columns: Sequence[str], lines: Sequence[str], text: str) -> GpuTopology:
    links: dict[str, dict[str, str]] = {}
    for line in lines:
        cells = line.split()
        if not cells or not _NODE.fullmatch(cells[0]):
            if links:
                break
            continue
        row = cells[1 : 1 + len(columns)]
        links[printable(cells[0])] = {
            printable(column): printable(cell[:12])
            for column, cell in zip(columns, row, strict=False)
            if _LINK.fullmatch(cell)
        }
    aliases = {match[1]: printable(match[2][:40]) for match in _ALIAS.finditer(text)}
    return GpuTopology(tuple(map(printable, columns)), links, aliases)
