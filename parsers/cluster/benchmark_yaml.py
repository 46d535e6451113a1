"""Cluster-benchmark YAML: values by category, and the versioned block that newer files hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import CardError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text import yaml_tree
from ccltui.parsers.text.json_fields import finite, whole
from ccltui.parsers.text.yaml_tree import (
    Limits,
    Node,
    Pair,
    Scalar,
    Sequence,
    load_yaml,
    read_bytes,
)

SCHEMA: Final = "ccltui.cluster_benchmark"
SCHEMA_VERSION: Final = 1
_LIMITS: Final = Limits("cluster benchmark", 1 << 24, 1_000_000)
_VALUE: Final = re.compile(
    r"\s*([-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(\S.*?)?\s*(?:\[([\w, -]+)\]\s*)?"
)
_NOT_MEASURED: Final = "not measured: "
_DEVICES: Final = re.compile(r"\b(\d{1,7}) (?:GPUs|ranks|devices|processes)\)")
_GPU: Final = re.compile(r"(?:(?P<host>.+?)\s+)?(?:GPU|Device) (?P<index>\d{1,4})")
_BYTE_UNITS: Final = {"GB/s": 1 << 30, "MB/s": 1 << 20}
"""Divisors by which the first writers of these files converted bytes."""

_IDS: Final[tuple[tuple[str, str, str], ...]] = (
    # category, test, id: patterns on lower-cased names, the first that fits
    (r"(?:inter-node )?network", r"latency", "network_latency"),
    (r"(?:inter-node )?network", r"all-to-all", "network_alltoall"),
    (r"(?:inter-node )?network", r"bandwidth", "network_bandwidth"),
    (r"inter-gpu", r"all-reduce", "allreduce"),
    (r"inter-gpu", r"all-to-all", "alltoall"),
    (r"(?:.+ )?(?:gpu|device) \d", r"memory bandwidth", "gpu_memory_bandwidth"),
    (r"(?:.+ )?(?:gpu|device) \d", r".*\bbf16\b", "matmul_bf16"),
    (r"(?:.+ )?(?:gpu|device) \d", r".*\btf32\b", "matmul_tf32"),
    (r"(?:.+ )?(?:gpu|device) \d", r".*(?:fp32|compute)", "matmul_fp32"),
    (r"storage.*aggregate", r"write", "storage_aggregate_write"),
    (r"storage.*aggregate", r"read", "storage_aggregate_read"),
    (r"storage", r"sequential write", "storage_sequential_write"),
    (r"storage", r"sequential read", "storage_sequential_read"),
    (r"storage", r"parallel write", "storage_parallel_write"),
    (r"storage", r"parallel read", "storage_parallel_read"),
    (r"storage", r"random iops", "storage_random_iops"),
    (r"cpu", r"multi-core", "cpu_stress"),
    (r"cpu", r"matrix", "cpu_matmul"),
    (r"cpu", r"compression", "cpu_compression"),
    (r"cpu", r"sorting", "cpu_sorting"),
    (r"memory", r"bandwidth", "memory_bandwidth"),
    (r"memory", r"alloc", "memory_allocation"),
)
_COMPILED: Final = tuple((re.compile(c), re.compile(t), name) for c, t, name in _IDS)


class Measurement(Struct, frozen=True):
    """One value of a benchmark; ``value`` None where it was not measured, ``reason`` says why.

    ``unit_bytes``: bytes that one of the unit counts, None for units that count none.
    ``line`` is 1-based.
    """

    id: str  # "" for a test that is not known
    category: str
    test: str
    value: float | None
    unit: str
    line: int
    unit_bytes: int | None = None
    host: str = ""
    device: int | None = None
    ranks: int | None = None
    method: str = ""
    samples: tuple[float, ...] = ()
    marks: tuple[str, ...] = ()
    reason: str = ""

    @property
    def decimal_gbps(self) -> float | None:
        """A bandwidth in 10^9 bytes a second, None for other quantities."""
        if self.value is None or self.unit_bytes is None:
            return None
        return self.value * self.unit_bytes / 1e9


class ClusterBenchmark(Struct, frozen=True):
    """One file. ``versioned``: its values come from the versioned block, as they were measured."""

    path: str
    measurements: tuple[Measurement, ...]
    timestamp: str = ""
    hostname: str = ""
    total_time_s: float | None = None
    versioned: bool = False
    gpu_name: str = ""
    device: str = ""  # cuda, cpu, or "" where it is not stated
    backend: str = ""
    world_size: int | None = None
    nodes: int | None = None
    hosts: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


def read_cluster_benchmark(path: Path, *, shown_path: str) -> ClusterBenchmark:
    """The file. Raises CardError with line and column where it is no such YAML."""
    root = load_yaml(read_bytes(path, shown_path, _LIMITS), shown_path, _LIMITS)
    if not isinstance(root, yaml_tree.Mapping):
        raise CardError("no cluster benchmark: it has no keys", path=shown_path, line=1)
    results = _mapping(root, "results")
    if results is None:
        raise CardError("no cluster benchmark: `results:` holds nothing", path=shown_path, line=1)
    notes: list[Note] = []
    of_results: list[Note] = []
    listed = tuple(_listed(results, of_results))
    benchmark = ClusterBenchmark(
        path=shown_path,
        measurements=listed,
        timestamp=_text(root, "timestamp"),
        hostname=_text(root, "hostname"),
        total_time_s=_seconds(_text(root, "total_time")),
    )
    found = _with_block(benchmark, root, notes)
    # Values printed next to a versioned block are for people only.
    return replace(found, notes=tuple(notes if found.versioned else [*of_results, *notes]))


def _listed(results: yaml_tree.Mapping, notes: list[Note]) -> Iterator[Measurement]:
    """Yield the measurements that `results:` lists: "number unit" by category and test."""
    for category in results.pairs:
        if not isinstance(category.node, yaml_tree.Mapping):
            message = f"line {category.mark.line}: {printable(category.key[:60])} holds no tests"
            notes.append(Note("bad_value", message))
            continue
        for test in category.node.pairs:
            yield _measurement(category.key, test, notes)


def _measurement(category: str, test: Pair, notes: list[Note]) -> Measurement:
    text = test.node.text if isinstance(test.node, Scalar) else ""
    name = _id(category, test.key)
    place = _GPU.fullmatch(category)
    ranks = _DEVICES.search(test.key)
    match = _VALUE.fullmatch(text)
    value = None if match is None else finite(match[1].replace(",", ""))
    unit = "" if match is None or match[2] is None else match[2]
    reason = text.removeprefix(_NOT_MEASURED)
    if value is None and name and reason == text:
        where = f"line {test.mark.line}: {printable(test.key[:60])}"
        notes.append(
            Note("bad_value", f"{where} is {printable(text[:40])!r}, not a number and a unit")
        )
    return Measurement(
        id=name,
        category=category,
        test=test.key,
        value=value,
        unit=unit,
        line=test.mark.line,
        unit_bytes=_BYTE_UNITS.get(unit),
        host="" if place is None else place["host"] or "",
        device=None if place is None else int(place["index"]),
        ranks=None if ranks is None else int(ranks[1]),
        marks=() if match is None else _marks(match[3]),
        reason=reason if value is None else "",
    )


def _marks(text: str | None) -> tuple[str, ...]:
    return tuple(mark.strip() for mark in (text or "").split(",") if mark.strip())


def _id(category: str, test: str) -> str:
    where, what = category.lower(), test.lower()
    fitting = (name for c, t, name in _COMPILED if c.match(where) and t.match(what))
    return next(fitting, "")


def _with_block(
    benchmark: ClusterBenchmark, root: yaml_tree.Mapping, notes: list[Note]
) -> ClusterBenchmark:
    """The benchmark with the values of its versioned block, where that can be used."""
    block = _mapping(root, "machine_readable")
    if block is None:
        return benchmark
    version = finite(_text(block, "schema_version"))
    if _text(block, "schema") != SCHEMA or version is None:
        notes.append(Note("bad_block", "its machine_readable block is of another schema"))
        return benchmark
    if version > SCHEMA_VERSION:
        message = f"block of version {version:g}: read like {SCHEMA_VERSION}, the newest known"
        notes.append(Note("newer_block", message))
    values = _child(block, "values")
    rows = values.items if isinstance(values, Sequence) else ()
    found = [_block_value(row, notes) for row in rows]
    hosts = _child(block, "hosts")
    return replace(
        benchmark,
        measurements=tuple(one for one in found if one is not None) or benchmark.measurements,
        versioned=bool(rows),
        gpu_name=_text(block, "gpu_name"),
        device=_text(block, "device"),
        backend=_text(block, "backend"),
        world_size=_count(block, "world_size"),
        nodes=_count(block, "nodes"),
        hosts=_texts(hosts),
        versions=_versions(block),
    )


def _block_value(row: Node, notes: list[Note]) -> Measurement | None:
    if not isinstance(row, yaml_tree.Mapping) or not _text(row, "id"):
        notes.append(Note("bad_value", f"line {row.mark.line}: a value without an id"))
        return None
    value = finite(_text(row, "value"))
    unit_bytes = _count(row, "unit_bytes")
    return Measurement(
        id=_text(row, "id"),
        category=_text(row, "category"),
        test=_text(row, "test"),
        value=value,
        unit=_text(row, "unit"),
        line=row.mark.line,
        unit_bytes=_BYTE_UNITS.get(_text(row, "unit")) if unit_bytes is None else unit_bytes,
        host=_text(row, "host"),
        device=_count(row, "device"),
        ranks=_count(row, "ranks"),
        method=_text(row, "method"),
        samples=tuple(n for text in _texts(_child(row, "samples")) if (n := finite(text))),
        marks=_texts(_child(row, "marks")),
        reason=_text(row, "reason") or ("" if value is not None else "no reason is given"),
    )


def _child(mapping: yaml_tree.Mapping, key: str) -> Node | None:
    return next((pair.node for pair in mapping.pairs if pair.key == key), None)


def _mapping(mapping: yaml_tree.Mapping, key: str) -> yaml_tree.Mapping | None:
    node = _child(mapping, key)
    return node if isinstance(node, yaml_tree.Mapping) else None


def _text(mapping: yaml_tree.Mapping, key: str) -> str:
    node = _child(mapping, key)
    return "" if not isinstance(node, Scalar) or node.value is None else node.text


def _texts(node: Node | None) -> tuple[str, ...]:
    if not isinstance(node, Sequence):
        return ()
    return tuple(item.text for item in node.items if isinstance(item, Scalar))


def _count(mapping: yaml_tree.Mapping, key: str) -> int | None:
    return whole(_text(mapping, key))


def _versions(block: yaml_tree.Mapping) -> dict[str, str]:
    versions = _mapping(block, "versions")
    if versions is None:
        return {}
    return {pair.key: _text(versions, pair.key) for pair in versions.pairs}


def _seconds(text: str) -> float | None:
    match = _VALUE.fullmatch(text)
    return None if match is None else finite(match[1].replace(",", ""))
