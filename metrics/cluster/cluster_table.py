"""Table of facts about machines, with the values that are implausible.

Devices that differ from their peers in a test are found by

    outlier: abs(value - median) > max(K * 1.4826 * MAD, FLOOR_PCT % of abs(median))

MAD is the median absolute deviation from the median over the devices (or hosts) of one test.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.statistics import median
from ccltui.metrics.cluster.cluster_files import ClusterFiles, read_cluster
from ccltui.metrics.model.peaks import DevicePeak, find_device
from ccltui.metrics.result import Reason

if TYPE_CHECKING:
    from ccltui.metrics.result import Code
    from ccltui.parsers.cluster.machine_files import ClusterBenchmark, Measurement
    from ccltui.parsers.cluster.nccl_tests import NcclTest
    from ccltui.parsers.found_files import Discovery

K: Final = 3.5
"""Least deviation of an outlier in scaled MADs."""
FLOOR_PCT: Final = 5.0
"""Least deviation in percent of the median: eight equal devices have a MAD near zero."""
LEAST_PEERS: Final = 3
"""Least number of values of a test."""
_SCALE: Final = 1.4826
"""Ratio of the standard deviation to the MAD of a normal distribution."""


class Peers(Struct, frozen=True):
    """Results of one test on several devices or hosts; ``outliers`` index ``measurements``."""

    test: str
    unit: str
    measurements: tuple[Measurement, ...]
    median: float
    mad: float
    outliers: tuple[int, ...]

    def deviation_pct(self, index: int) -> float:
        """Return the deviation of one of them from the median, in percent of the median."""
        value = self.measurements[index].value or 0.0
        return 100 * (value - self.median) / self.median


def peers_of(
    benchmark: ClusterBenchmark, *, k: float = K, floor_pct: float = FLOOR_PCT
) -> tuple[Peers, ...]:
    """Return every test with values of at least three devices (or hosts)."""
    groups: dict[tuple[str, str, bool], list[Measurement]] = defaultdict(list)
    for one in benchmark.measurements:
        if one.value is None or (one.device is None and not one.host):
            continue
        groups[one.id or one.test, one.unit, one.device is None].append(one)
    return tuple(
        _peers(test, unit, found, k, floor_pct)
        for (test, unit, _), found in groups.items()
        if len(found) >= LEAST_PEERS
    )


def _peers(test: str, unit: str, found: Sequence[Measurement], k: float, floor_pct: float) -> Peers:
    values = [one.value or 0.0 for one in found]
    middle = median(values) or 0.0
    mad = median([abs(value - middle) for value in values]) or 0.0
    limit = max(k * _SCALE * mad, floor_pct / 100 * abs(middle))
    outliers = tuple(i for i, value in enumerate(values) if abs(value - middle) > limit)
    return Peers(test, unit, tuple(found), middle, mad, outliers if middle else ())


def name_of(one: Measurement) -> str:
    """Return the device or host of a measurement: ``GPU 0``, ``node-a GPU 3``, ``node-a``."""
    device = "" if one.device is None else f"GPU {one.device}"
    return " ".join(part for part in (one.host, device) if part) or one.category


Verdict = Literal["impossible", "suspect"]

FASTEST_CARD_GBPS: Final = 100.0
"""Rate of the fastest network card of a device in one direction: 800 Gbit/s."""
SLACK: Final = 1.02
"""Only values more than 2 % above a peak are impossible, since clock rates vary."""
MOST_DISAGREEMENT: Final = 2.0
"""Largest plausible ratio of two measurements of the same quantity."""
LEAST_LATENCY_MS: Final = 0.0005
"""Half a microsecond: two adapters and a switch take longer."""
_BETWEEN_DEVICES: Final = ("network_bandwidth", "network_alltoall", "allreduce", "alltoall")
_MATMUL: Final = {"matmul_fp32": "fp32", "matmul_tf32": "tf32", "matmul_bf16": "bf16"}
_MARKS: Final = {
    "same_node": "measured inside one host: this is no network",
    "unsynchronised": "measured without waiting for the device: a rate of launches",
    "cached": "the page cache was not defeated",
}


class Implausible(Struct, frozen=True):
    """An impossible or suspect value, the reason, and the limit that it exceeds."""

    measurement: Measurement
    verdict: Verdict
    message: str
    limit: float | None = None


def implausible(
    benchmark: ClusterBenchmark, peak: DevicePeak | None, card_gbps: float | None = None
) -> tuple[Implausible, ...]:
    """Return the implausible values of a benchmark, in the order of the file.

    Args:
        benchmark: The values.
        peak: Peaks of the device; None where it is not known.
        card_gbps: Rate of the network cards of one host in one direction, decimal GB/s; None where
            not known.
    """
    found: list[Implausible] = []
    for one in benchmark.measurements:
        if one.value is None:
            continue
        if one.value <= 0:
            found.append(
                Implausible(one, "impossible", f"{own_figure(one)} is not above zero", 0.0)
            )
            continue
        found += _against_device(one, peak)
        found += _against_memory(one, benchmark, peak)
        found += _against_network(one, benchmark, card_gbps)
        found += _against_others(one, benchmark)
        found += _by_marks(one)
    return tuple(found)


def own_figure(one: Measurement, compared_gbps: float | None = None) -> str:
    """Return the value as in its file, and what it is compared as where that differs.

    «309.57 GB/s (332 GB/s in 10^9 bytes)»: a reader finds the first number in the file.

    Args:
        one: A measurement with a value.
        compared_gbps: The rate that is compared with a limit, 10^9 bytes a second: of another unit
            where the file counts in GiB, and of one rank where its value is that of all ranks.
    """
    own = f"{one.value:.10g} {one.unit}"
    decimal = one.decimal_gbps
    if compared_gbps is None or decimal is None:
        return own
    share = " a rank" if compared_gbps != decimal else ""
    if not share and one.unit_bytes == 1e9:
        return own
    return f"{own} ({compared_gbps:,.0f} GB/s{share} in 10^9 bytes)"


def _by_marks(one: Measurement) -> Iterator[Implausible]:
    """Check the marks that the benchmark sets on its value.

    A measurement inside a host is suspect only for network tests.
    """
    for mark in one.marks:
        if mark in _MARKS and (mark != "same_node" or one.id.startswith("network_")):
            yield Implausible(one, "suspect", _MARKS[mark])


def _against_device(one: Measurement, peak: DevicePeak | None) -> Iterator[Implausible]:
    if peak is None or one.value is None:
        return
    precision = _MATMUL.get(one.id)
    limit = None if precision is None else peak.tflops.get(precision)
    if limit is not None and one.value > SLACK * limit:
        most = f"the {peak.name} makes at most {limit:g} TFLOPS in {precision}"
        why = f"{own_figure(one)}, and {most}"
        if precision == "fp32" and one.value <= SLACK * peak.tflops.get("tf32", 0.0):
            why += "; TF32 may have been on"
        yield Implausible(one, "impossible", why, limit)
    if one.id == "gpu_memory_bandwidth" and peak.memory_gbps is not None:
        rate = one.decimal_gbps
        if rate is not None and rate > SLACK * peak.memory_gbps:
            most = f"the memory of the {peak.name} moves at most {peak.memory_gbps:,.0f} GB/s"
            why = f"{own_figure(one, rate)}, and {most}"
            yield Implausible(one, "impossible", why, peak.memory_gbps)


def _against_memory(
    one: Measurement, benchmark: ClusterBenchmark, peak: DevicePeak | None
) -> Iterator[Implausible]:
    """Compare rates between devices with the memory bandwidth: sent data is read from memory."""
    rate = one.decimal_gbps
    if one.id not in _BETWEEN_DEVICES or rate is None:
        return
    measured = [
        other.decimal_gbps or 0.0
        for other in benchmark.measurements
        if other.id == "gpu_memory_bandwidth"
    ]
    limit, whose = max(measured, default=0.0), "the memory bandwidth measured here"
    if peak is not None and peak.memory_gbps is not None and peak.memory_gbps > limit:
        limit, whose = peak.memory_gbps, f"the memory bandwidth of the {peak.name}"
    each = rate / _summed_ranks(one, benchmark, of_host=False)
    if limit and each > limit:
        why = f"{own_figure(one, each)} is above {whose}, {limit:,.0f} GB/s"
        yield Implausible(one, "impossible", f"{why}: no device sends faster than it reads", limit)


def _against_network(
    one: Measurement, benchmark: ClusterBenchmark, card_gbps: float | None
) -> Iterator[Implausible]:
    if one.id == "network_latency" and one.value is not None and one.value < LEAST_LATENCY_MS:
        why = f"{own_figure(one)} is below 0.5 us, which no network reaches"
        yield Implausible(one, "impossible", why, LEAST_LATENCY_MS)
    rate = one.decimal_gbps
    if rate is None or one.id not in ("network_bandwidth", "network_alltoall"):
        return
    each = rate / _summed_ranks(one, benchmark, of_host=card_gbps is not None)
    limit = 2 * (card_gbps or FASTEST_CARD_GBPS)
    if each <= limit:
        return
    whose = "the cards of this host carry" if card_gbps else "the fastest network card carries"
    why = f"{own_figure(one, each)}, and {whose} {limit / 2:,.1f} GB/s in each direction"
    if one.id == "network_bandwidth":
        why += ": the two ranks may share a host"
    yield Implausible(one, "impossible", why, limit)


def _summed_ranks(one: Measurement, benchmark: ClusterBenchmark, *, of_host: bool) -> int:
    """Return how many ranks a rate may be the sum over, in favour of the value.

    An all-to-all may be that of all ranks. The bandwidth of a versioned file is that of all ranks
    of a host at once, which is one where the limit is that of the host (``of_host``).
    """
    if one.id == "network_alltoall" and one.ranks:
        return one.ranks
    hosts = hosts_of(benchmark)
    if of_host or not benchmark.versioned or not hosts or not one.ranks:
        return 1
    return -(-one.ranks // hosts)


def _against_others(one: Measurement, benchmark: ClusterBenchmark) -> Iterator[Implausible]:
    if one.id == "network_alltoall":
        yield from _agreement(one, _first(benchmark, "alltoall"), benchmark)
    if one.id in ("storage_aggregate_write", "storage_aggregate_read"):
        yield from _against_single(one, benchmark, one.id.rpartition("_")[2])


def _agreement(
    one: Measurement, other: Measurement | None, benchmark: ClusterBenchmark
) -> Iterator[Implausible]:
    """Compare an all-to-all over the network with the same pattern, synchronised.

    The other value is the bus bandwidth of one rank; this one may be the sum over all ranks, which
    is at most their number times as large. On CPUs a call returns when its data has moved, so
    that a high rate is no rate of launches: the two differ by what else the machine does.
    """
    if other is None or not one.value or not other.value or one.unit != other.unit:
        return
    of_all = other.value * (one.ranks or other.ranks or 1)
    if one.value <= MOST_DISAGREEMENT * of_all:
        return
    verdict: Verdict = "suspect" if is_of_cpus(benchmark) else "impossible"
    why = (
        f"{own_figure(one)} is {one.value / other.value:,.0f} times {other.category}, "
        f"{other.test}: {own_figure(other)} a rank (the same pattern, synchronised)"
    )
    yield Implausible(one, verdict, why, MOST_DISAGREEMENT * of_all)


def is_of_cpus(benchmark: ClusterBenchmark) -> bool:
    """Return whether the ranks exchanged data of CPUs: no device computes beside the host."""
    return benchmark.device == "cpu" or benchmark.backend == "gloo"


def _against_single(
    one: Measurement, benchmark: ClusterBenchmark, direction: str
) -> Iterator[Implausible]:
    """Compare the rate of all hosts together with that of one host times their number."""
    names = (f"storage_sequential_{direction}", f"storage_parallel_{direction}")
    single = [
        other.value
        for other in benchmark.measurements
        if other.id in names and other.value and other.unit == one.unit
    ]
    hosts = hosts_of(benchmark)
    if not single or hosts is None or one.value is None:
        return
    limit = max(single) * hosts
    if one.value > MOST_DISAGREEMENT * limit:
        whose = "1 host reaches alone" if hosts == 1 else f"{hosts} hosts reach one by one"
        why = f"{own_figure(one)} is {one.value / limit:.1f} times what {whose}"
        yield Implausible(one, "suspect", f"{why}: the page cache may have answered", limit)


def hosts_of(benchmark: ClusterBenchmark) -> int | None:
    """Return the number of hosts: as stated, else ranks over devices per host; None if unknown."""
    if benchmark.nodes:
        return benchmark.nodes
    ranks = max((one.ranks or 0 for one in benchmark.measurements), default=0)
    devices = {
        one.device for one in benchmark.measurements if one.device is not None and not one.host
    }
    if not ranks or not devices or ranks % len(devices):
        return None
    return ranks // len(devices)


def _first(benchmark: ClusterBenchmark, name: str) -> Measurement | None:
    found = (one for one in benchmark.measurements if one.id == name and one.value is not None)
    return next(found, None)


def label_of(one: Measurement) -> str:
    """Return the place and the test of a measurement in words."""
    where = name_of(one) if one.device is not None or one.host else one.category
    return f"{where}, {one.test}"


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
        "largest_bytes": int(test.size_bytes.max()) if len(test) else None,
        "num_ranks": test.ranks,
        "num_hosts": len(test.hosts) or None,
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
