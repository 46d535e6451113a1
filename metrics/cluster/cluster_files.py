"""Read the files about machines, and build results for the metrics of machines.

Unreadable files become one line each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from ccltui.metrics.model.peaks import DevicePeak, find_device
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.provenance import require_traces, side_answer
from ccltui.parsers.cluster import (
    CLUSTER_BENCHMARK,
    GPU_TOPOLOGY,
    IB_STATUS,
    NCCL_LOG,
    NCCL_TESTS,
    NCCL_TESTS_JSON,
    NCCL_TOPOLOGY,
)
from ccltui.parsers.discovery.run_settings import CLUSTER_FORMATS, format_meant
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.format import Format
from ccltui.parsers.found_files import Discovery, FoundFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ccltui.metrics.result import MetricDefinition
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.cluster.machine_files import (
        ClusterBenchmark,
        GpuTopology,
        IbPort,
        NcclTopology,
    )
    from ccltui.parsers.cluster.nccl_log import NcclLog
    from ccltui.parsers.cluster.nccl_tests import NcclTest


T = TypeVar("T")

Named = tuple[str, T]
"""A path relative to the opened directory, and the content of its file."""

MOST_LOGS: Final = 64
"""Number of NCCL logs that are read: those of many ranks repeat each other."""


class ClusterFiles(Struct, frozen=True):
    """Contents of files in natural order of paths, and one line for each unreadable file."""

    benchmarks: tuple[ClusterBenchmark, ...] = ()
    tests: tuple[Named[NcclTest], ...] = ()
    logs: tuple[Named[NcclLog], ...] = ()
    topologies: tuple[Named[NcclTopology], ...] = ()
    matrices: tuple[Named[GpuTopology], ...] = ()
    ports: tuple[Named[IbPort], ...] = ()
    logs_left_out: int = 0
    problems: tuple[str, ...] = ()

    @property
    def device_names(self) -> tuple[str, ...]:
        """Distinct names of devices in all files."""
        names = [benchmark.gpu_name for benchmark in self.benchmarks]
        names += [name for _, test in self.tests for name in test.device_names]
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def card_gbps(self) -> float | None:
        """Rate of all network cards of a host in one direction, decimal GB/s; None if not known.

        The largest sum over hosts; from port states, else from NCCL topologies.
        """
        by_host: dict[str, float] = defaultdict(float)
        for path, port in self.ports:
            by_host[path] += port.rate_gbps or 0.0 if port.is_up else 0.0
        for path, topology in self.topologies if not by_host else ():
            by_host[path] += sum(nic.speed_gbps or 0.0 for nic in topology.nics)
        return max(by_host.values(), default=0.0) / 8 or None


def read_cluster(discovery: Discovery) -> ClusterFiles:
    """Read every file about machines below a directory."""
    files = [file for file in discovery.files if file.duplicate_of is None]
    chosen = tuple(file for file in files if format_meant(file) in CLUSTER_FORMATS)
    return _read(chosen) if chosen else ClusterFiles()


@lru_cache(maxsize=8)
def _read(files: tuple[FoundFile, ...]) -> ClusterFiles:
    # imported here, as most directories need none of these readers
    from ccltui.parsers.cluster.machine_files import (  # noqa: PLC0415
        read_cluster_benchmark,
        read_gpu_topology,
        read_ib_status,
        read_nccl_topology,
    )
    from ccltui.parsers.cluster.nccl_log import read_nccl_log  # noqa: PLC0415
    from ccltui.parsers.cluster.nccl_tests import (  # noqa: PLC0415
        read_nccl_tests,
        read_nccl_tests_json,
    )

    def benchmark(path: Path, *, shown: str) -> ClusterBenchmark:
        return read_cluster_benchmark(path, shown_path=shown)

    problems: list[str] = []
    logs = _of(files, NCCL_LOG)
    return ClusterFiles(
        benchmarks=tuple(
            one for _, one in _all(_of(files, CLUSTER_BENCHMARK), benchmark, problems)
        ),
        tests=(
            *_flat(_all(_of(files, NCCL_TESTS), read_nccl_tests, problems)),
            *_flat(_all(_of(files, NCCL_TESTS_JSON), read_nccl_tests_json, problems)),
        ),
        logs=tuple(_all(logs[:MOST_LOGS], read_nccl_log, problems)),
        topologies=tuple(_all(_of(files, NCCL_TOPOLOGY), read_nccl_topology, problems)),
        matrices=tuple(_all(_of(files, GPU_TOPOLOGY), read_gpu_topology, problems)),
        ports=_flat(_all(_of(files, IB_STATUS), read_ib_status, problems)),
        logs_left_out=max(len(logs) - MOST_LOGS, 0),
        problems=tuple(problems),
    )


def _of(files: Sequence[FoundFile], wanted: Format) -> list[FoundFile]:
    return [file for file in files if format_meant(file) is wanted]


def _all(files: Sequence[FoundFile], read: Callable[..., T], problems: list[str]) -> list[Named[T]]:
    found: list[Named[T]] = []
    for file in files:
        if file.problem is not None:
            problems.append(f"{file.path}: {file.problem}")
            continue
        try:
            with contained(file.path):
                found.append((file.path, read(Path(file.real_path), shown=file.path)))
        except TraceError as error:
            problems.append(str(error))
    return found


def _flat(found: Sequence[Named[tuple[T, ...]]]) -> tuple[Named[T], ...]:
    return tuple((path, one) for path, several in found for one in several)


def cluster_of(view: View, part: str, what: str) -> ClusterFiles:
    """Return the files about machines.

    Raises:
        Refusal: No file of ``part`` (a field of `ClusterFiles`) could be read.
    """
    if not view.job.ranks and not view.job.discovery.files:
        require_traces(view)
    files = read_cluster(view.job.discovery)
    if getattr(files, part):
        return files
    problems = [Reason("no_side_file", problem) for problem in files.problems]
    if problems:
        raise Refusal(Reason("no_side_file", f"no {what} that can be read"), *problems)
    raise refuse("no_side_file", f"no {what} here")


def device_peak(view: View, files: ClusterFiles) -> DevicePeak | None:
    """Return the device named by the user or the card, else by the files; None if not known."""
    names = [view.card.text("gpu_model"), *files.device_names]
    return next((peak for name in names if name and (peak := find_device(name))), None)


def cluster_answer(
    metric: MetricDefinition,
    view: View,
    details: Mapping[str, Any],
    *,
    paths: Sequence[str],
    files: ClusterFiles,
    basis: Mapping[str, str],
    warnings: Sequence[str] = (),
    reasons: Sequence[Reason] = (),
) -> Result:
    """Return the result of a metric of machines."""
    return side_answer(
        metric,
        view,
        details,
        files=list(dict.fromkeys(paths)),
        basis=basis,
        warnings=(*warnings, *files.problems),
        reasons=reasons,
    )
