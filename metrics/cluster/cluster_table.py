"""Build the table of facts about machines, with the problems of each value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.cluster.cluster_files import ClusterFiles, read_cluster
from ccltui.metrics.cluster.plausibility import Implausible, implausible, peers_of
from ccltui.metrics.model.peaks import find_device
from ccltui.metrics.result import Reason

if TYPE_CHECKING:
    from ccltui.metrics.result import Code
    from ccltui.parsers.cluster.benchmark_yaml import ClusterBenchmark, Measurement
    from ccltui.parsers.cluster.nccl_tests import NcclTest
    from ccltui.parsers.found_files import Discovery


def nccl_test_row(path: str, test: NcclTest) -> dict[str, Any]:
    """Return one test as a row: its best bus bandwidth and the message size of that."""
    best = np.fmax(test.out_busbw, test.in_busbw)
    known = np.isfinite(best)
    at = int(np.nanargmax(best)) if known.any() else None
    checked = test.wrong[test.wrong >= 0]
    return {
        "collective": test.collective,
        "max_busbw_GBps": None if at is None else float(best[at]),
        "at_bytes": None if at is None else int(test.size_bytes[at]),
        "average_busbw_GBps": test.average_busbw,
        "num_sizes": len(test),
        "num_ranks": test.ranks,
        "num_wrong": int(checked.sum()) if len(checked) else None,
        "nccl_version": test.nccl_version,
        "devices": list(test.device_names),
        "writer": test.writer,
        "file": path,
    }


def unread_parts(path: str, test: NcclTest) -> tuple[Reason, ...]:
    """Return why the rows of a test are not all that it measured, or not surely of one test."""
    return tuple(
        Reason(_PARTIAL[note.code], f"{path}: {note.message}")
        for note in test.notes
        if note.code in _PARTIAL
    )


_PARTIAL: Final[dict[str, Code]] = {
    "bad_row": "damaged_trace",
    "mixed_tests": "rank_conflict",
    "unfinished_test": "incomplete_run",
    "cut_file": "truncated_trace",
    "long_text": "truncated_trace",
}


Mark = Literal["", "outlier", "suspect", "impossible", "problem"]


class ClusterRow(Struct, frozen=True):
    """One fact, in ``value`` or, if that is None, in ``text``; ``mark`` is "" without a problem."""

    section: str
    what: str
    value: float | None = None
    unit: str = ""
    text: str = ""
    mark: Mark = ""
    message: str = ""


def cluster_table(discovery: Discovery, device: str = "") -> tuple[ClusterRow, ...]:
    """Return rows on benchmarks, nccl-tests, NCCL logs, topologies and network cards, in order.

    ``device`` is the name of the device; by default the files name it.
    """
    files = read_cluster(discovery)
    rows: list[ClusterRow] = [
        ClusterRow("files", problem.partition(":")[0], mark="problem", message=problem)
        for problem in files.problems
    ]
    for benchmark in files.benchmarks:
        rows += _benchmark(benchmark, files, device)
    rows += _tests(files)
    rows += _logs(files)
    rows += _topologies(files)
    return tuple(rows)


def _benchmark(
    benchmark: ClusterBenchmark, files: ClusterFiles, device: str
) -> Iterator[ClusterRow]:
    names = [device, benchmark.gpu_name, *files.device_names]
    peak = next((found for name in names if name and (found := find_device(name))), None)
    doubts: dict[Measurement, list[Implausible]] = {}
    for doubt in implausible(benchmark, peak, files.card_gbps):
        doubts.setdefault(doubt.measurement, []).append(doubt)
    deviations = {
        peers.measurements[index]: f"{peers.deviation_pct(index):+.0f} % against the median "
        f"{peers.median:g} of {len(peers.measurements)}"
        for peers in peers_of(benchmark)
        for index in peers.outliers
    }
    for one in benchmark.measurements:
        yield _value(one, doubts.get(one, []), deviations.get(one, ""))
    for note in benchmark.notes:
        yield ClusterRow("files", benchmark.path, mark="problem", message=note.message)


def _value(one: Measurement, doubts: list[Implausible], deviation: str) -> ClusterRow:
    verdicts = [doubt.verdict for doubt in doubts]
    mark: Mark = ""
    if verdicts:
        mark = "impossible" if "impossible" in verdicts else "suspect"
    elif deviation:
        mark = "outlier"
    messages = [deviation, *(doubt.message for doubt in doubts)]
    section = f"{one.host} {one.category}" if one.host else one.category
    return ClusterRow(
        section=section,
        what=one.test,
        value=one.value,
        unit=one.unit,
        text="" if one.value is not None else one.reason,
        mark=mark,
        message="; ".join(part for part in messages if part) or one.method,
    )


def _tests(files: ClusterFiles) -> Iterator[ClusterRow]:
    for path, test in files.tests:
        row = nccl_test_row(path, test)
        wrong, problem = row["num_wrong"], test.problem
        best = row["at_bytes"]
        message = "" if best is None else f"{row['num_sizes']} sizes, the best at {best:,} bytes"
        unread = "; ".join(reason.message for reason in unread_parts(path, test))
        yield ClusterRow(
            section="nccl-tests",
            what=f"{row['collective']}, {row['num_ranks'] or '?'} ranks",
            value=row["max_busbw_GBps"],
            unit="" if best is None else "GB/s",
            mark="impossible" if wrong else "problem" if problem or unread else "",
            message=f"{wrong} wrong values" if wrong else problem or unread or message,
        )


def _logs(files: ClusterFiles) -> Iterator[ClusterRow]:
    """Yield the common facts of the logs of all ranks, and every warning."""
    logs = files.logs
    if not logs:
        return
    links: Counter[str] = Counter()
    for _, log in logs:
        links.update(log.transports)
    facts = {
        "version": _distinct([log.version for _, log in logs]),
        "network": _distinct([name for _, log in logs for name in log.networks]),
        "cards": _distinct([name for _, log in logs for name in log.cards]),
        "links": ", ".join(f"{kind} {count}" for kind, count in links.most_common()),
        "hosts": _distinct([name for _, log in logs for name in log.hosts]),
        "rings, trees": _distinct([f"{log.rings}, {log.trees}" for _, log in logs if log.rings]),
    }
    for what, text in facts.items():
        if text:
            message = f"in {len(logs)} log{'s' if len(logs) > 1 else ''}"
            yield ClusterRow("NCCL", what, text=text, message=message)
    for path, log in logs:
        for warning in log.warnings:
            where = f"{path}:{warning.line}"
            times = f"{warning.count} times" if warning.count > 1 else "once"
            message = f"{where}: {warning.text}"
            yield ClusterRow("NCCL", "warning", text=times, mark="suspect", message=message)
    if files.logs_left_out:
        text = f"{files.logs_left_out} further logs are not read"
        yield ClusterRow("NCCL", "logs", text=text)


def _topologies(files: ClusterFiles) -> Iterator[ClusterRow]:
    for path, topology in files.topologies:
        links = sum(sum(gpu.nvlinks.values()) for gpu in topology.gpus)
        text = f"{len(topology.gpus)} devices, {links} NVLink ends, {len(topology.nics)} ports"
        yield ClusterRow("topology", path, text=text)
    for path, matrix in files.matrices:
        kinds = Counter(
            link
            for row in matrix.gpus
            for column, link in matrix.links.get(row, {}).items()
            if column in matrix.gpus and column != row
        )
        counts = ", ".join(f"{kind} {count // 2}" for kind, count in kinds.most_common())
        text = f"{len(matrix.gpus)} devices; between them {counts or 'nothing listed'}"
        near = [
            f"{gpu}: {', '.join(f'{card} {link}' for card, link in matrix.nearest_nics(gpu))}"
            for gpu in matrix.gpus
        ]
        yield ClusterRow("topology", path, text=text, message=f"nearest cards {'; '.join(near)}")
    for _, port in files.ports:
        state = f"{port.state}, {port.physical_state}, {port.link_layer}"
        yield ClusterRow(
            section="network cards",
            what=f"{port.card} port {port.port}",
            value=port.rate_gbps,
            unit="Gbit/s",
            mark="" if port.is_up else "problem",
            message=state,
        )


def _distinct(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name))
