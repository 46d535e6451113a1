"""Write the result file: lines for people in its original form, and a block for programs."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from cluster_benchmark.row import Row

SCHEMA: Final = "ccltui.cluster_benchmark"
SCHEMA_VERSION: Final = 1
_ORDER: Final = ("Inter-Node Network", "GPU", "Inter-GPU", "Storage I/O (per", "Storage I/O (multi",
                 "CPU", "Memory")  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class About:
    """Facts about a measurement. ``timestamp`` is ISO 8601, ``total_s`` wall seconds."""

    timestamp: str
    hostname: str
    total_s: float
    job_id: str | None
    device: str
    backend: str
    gpu_name: str | None
    hosts: tuple[str, ...]
    world_size: int
    versions: Mapping[str, str]


def text_of(about: About, rows: Sequence[Row]) -> str:
    """Return the YAML document; values of several hosts are shown as their median."""
    document = {
        "timestamp": about.timestamp,
        "hostname": about.hostname,
        "total_time": f"{about.total_s:.2f} seconds",
        "results": _shown(rows),
        "machine_readable": {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "job_id": about.job_id,
            "device": about.device,
            "backend": about.backend,
            "gpu_name": about.gpu_name,
            "world_size": about.world_size,
            "nodes": len(about.hosts),
            "hosts": list(about.hosts),
            "versions": dict(about.versions),
            "values": [_plain(row) for row in rows],
        },
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _shown(rows: Sequence[Row]) -> dict[str, dict[str, str]]:
    """Return lines for people: the median over hosts, and the limitations of each number."""
    categories: dict[str, dict[str, list[Row]]] = {}
    for row in sorted(rows, key=_place):
        categories.setdefault(row.category, {}).setdefault(row.test, []).append(row)
    return {
        category: {test: _line(found) for test, found in tests.items()}
        for category, tests in categories.items()
    }


def _place(row: Row) -> int:
    return next(n for n, start in enumerate(_ORDER) if row.category.startswith(start))


def _line(rows: Sequence[Row]) -> str:
    values = [row.value for row in rows if row.value is not None]
    if not values:
        return f"not measured: {rows[0].reason}"
    marks = sorted({mark for row in rows for mark in row.marks})
    note = f" [{', '.join(marks)}]" if marks else ""
    return f"{statistics.median(values):.2f} {rows[0].unit}{note}"


def _plain(row: Row) -> dict[str, Any]:
    values = dataclasses.asdict(row)
    return {**values, "samples": list(row.samples), "marks": list(row.marks)}
