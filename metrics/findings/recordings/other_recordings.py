"""Findings on recordings that are no timeline of a job.

These are files filtered to some kernels, execution traces alone, events of NCCL's profiler
plug-ins, values that NCCL Inspector wrote for Prometheus, and recordings without work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Answer, Finding, Where
from ccltui.metrics.findings.recordings.host_findings import operator_totals
from ccltui.metrics.findings.sentences import RECORD
from ccltui.metrics.inspector.late_roots import SLOW_SHARE
from ccltui.metrics.inspector.rolled_job import LEAST_LAG_US, LEAST_SHARE, ROOTED
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.metrics.view.words import sentence, short_name
from ccltui.parsers.communication_kernels import communication_kernel
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.inspector import NCCL_INSPECTOR_PROM
from ccltui.parsers.kineto import EXECUTION_TRACE
from ccltui.parsers.numbers import counted, percent, time_text
from ccltui.parsers.safe_text import listed
from ccltui.parsers.side import NCCL_PROFILER
from ccltui.parsers.side.unread_files import ARCHIVE

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.found_files import FoundFile
    from ccltui.parsers.inspector.read_records import Gauge
    from ccltui.parsers.kineto.execution_trace import ExecutionTrace


FILTERED: Final = "text_filtered"
"""Code of the note of a trace that was printed for some kernels only."""
_SHOWN: Final = 3
_PROFILER_MARK: Final = "PyTorch Profiler ("
"""Start of the name of the event that lasts as long as the profiler records."""

_NOT_WRITTEN: Final = (
    "Look whether the job came as far as writing these files, and whether the disk is full. NCCL "
    "Inspector and profilers write at intervals, or when the job ends."
)


def filtered_answer(view: View) -> Answer | None:
    """Return how long the kernels of a filtered recording last, None where it is whole."""
    ranks = [rank for rank in view.ranks if rank.facts.has_kernels]
    if not ranks or not all(
        any(note.code == FILTERED for note in rank.trace.notes) for rank in ranks
    ):
        return None
    found = sorted(_spreads(ranks), key=lambda one: -(one.cost_ms or 0.0))
    return Answer(
        recording="filtered",
        findings=tuple(found),
        unknown=(
            "Other kernels were left out when the file was written, so it does not show idle "
            "time, computation and waiting.",
        ),
    )


def _spreads(ranks: list[RankView]) -> Iterator[Finding]:
    """Yield the distribution of durations of each kernel, by operation where it communicates."""
    durations: dict[str, dict[str, list[Any]]] = {}
    for rank in ranks:
        gpu = rank.trace.group("gpu")
        for name in distinct_values(gpu.name).tolist():
            text = rank.trace.text(name)
            kernel = communication_kernel(text)
            key = bare_name(text) if kernel is None else kernel.operation
            rows = gpu.name == name
            durations.setdefault(key, {}).setdefault(rank.label, []).append(gpu.dur_ns[rows])
    for key, by_rank in durations.items():
        own = {label: np.concatenate(parts) for label, parts in by_rank.items()}
        every = np.concatenate(list(own.values()))
        middle, tail, most = (
            milliseconds(float(one)) for one in np.percentile(every, (50, 95, 100))
        )
        medians = {label: float(median_along(one)) for label, one in own.items()}
        slowest = max(medians, key=lambda label: (medians[label], label))
        fastest = min(medians, key=lambda label: (medians[label], label))
        by_device = (
            f"; the median is between {time_text(milliseconds(medians[fastest]))} (device "
            f"{fastest}) and {time_text(milliseconds(medians[slowest]))} (device {slowest})"
            if len(medians) > 1
            else ""
        )
        yield Finding(
            kind="transfer_spread",
            text=sentence(
                f"{short_name(key)} takes a median of {time_text(middle)}, {time_text(tail)} at "
                f"the 95th percentile, and at most {time_text(most)}"
            ),
            more=sentence(f"{counted(len(every), 'kernel')}{by_device}"),
            where=Where(ranks=(slowest,) if len(medians) > 1 else (), kernel=key),
            cost_ms=milliseconds(float(every.sum())) / len(ranks),
            sure=Sure(what="high"),
            do="Record all kernels (nsys stats -r cuda_gpu_trace without a filter) to see what the "
            "device does between them.",
        )


def execution_answer(view: View) -> Answer | None:
    """Return what execution traces count, None where there are none."""
    traces = list(_execution_traces(view))
    if not traces:
        return None
    operators: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for trace in traces:
        operators.update(trace.names.values())
        calls.update(_communication(trace))
    number = sum(calls.values())
    noun = counted(len(traces), "execution trace")
    text = (
        f"{noun}: {counted(sum(operators.values()), 'operator')} and "
        f"{counted(number, 'communication call')}, without times"
    )
    kinds = ", ".join(f"{n:,} {name}" for name, n in calls.most_common(_SHOWN))
    most = ", ".join(f"{name} {n:,}" for name, n in operators.most_common(_SHOWN))
    more = f"communication: {kinds}; " if kinds else ""
    finding = Finding(
        kind="counts",
        text=sentence(text),
        more=sentence(f"{more}most frequent: {most}"),
        sure=Sure(what="high"),
        do="Copy the Kineto traces of the same run into the directory: they have the times. "
        + RECORD,
    )
    return Answer(
        recording="execution_traces",
        findings=(finding,),
        unknown=("Execution traces have no times, so they cannot show what is slow.",),
    )


def _communication(trace: ExecutionTrace) -> Iterator[str]:
    """Yield the operation of each communication call once.

    A call is several nodes, one inside the other: the operator, the record of its parameters, and
    the annotation of its backend. The kind of node that is inside is counted where it is there.
    """
    for is_counted in (_is_backend, _is_recorded, _is_operator):
        names = [call.op or call.node for call in trace.calls if is_counted(call.node)]
        kept = [name for name in names if name not in _NO_TRANSFER]
        if kept:
            yield from (name.partition(":")[2].lstrip(":") or name for name in kept)
            return


_NO_TRANSFER: Final = frozenset({"wait", "init", "barrier_wait"})
"""Recorded calls that move no data."""


def _is_backend(node: str) -> bool:
    return node.startswith(("nccl:", "gloo:", "mpi:", "ucc:", "hccl:", "xccl:"))


def _is_recorded(node: str) -> bool:
    return node == "record_param_comms"


def _is_operator(node: str) -> bool:
    return "c10d" in node


def _execution_traces(view: View) -> Iterator[ExecutionTrace]:
    from ccltui.parsers.kineto.execution_trace import (  # noqa: PLC0415  (few have any)
        read_execution_trace,
    )

    for file in view.job.discovery.files_of(EXECUTION_TRACE):
        try:
            with contained(file.path):
                yield read_execution_trace(Path(file.real_path), shown=file.path)
        except TraceError:  # stated by doctor with its line
            continue


def empty_answer(view: View) -> Answer:
    """Return what is in a recording without work, and what to record."""
    ranks = view.job.ranks
    files = view.job.discovery.files
    is_empty = not ranks and all(file.size_bytes == 0 for file in files)
    finding = Finding(
        kind="nothing",
        text=sentence(_what_is_here(view)),
        more=sentence(_on_hosts(view)),
        sure=Sure(what="high"),
        do=_NOT_WRITTEN if is_empty else _do(files),
    )
    return Answer(
        recording="no_work" if ranks else "no_trace",
        findings=(finding,),
        unknown=(_nothing_to_measure(view),) if ranks else (),
    )


def _do(files: Sequence[FoundFile]) -> str:
    """Return what to do about files without work; an archive may hold what is looked for."""
    archives = [file.path for file in files if file.format is ARCHIVE]
    if not archives:
        return RECORD
    what = "it" if len(archives) == 1 else "them"
    return f"Unpack {listed(archives, _SHOWN)}, and open the folder with what is in {what}."


def _nothing_to_measure(view: View) -> str:
    has_steps = any(rank.by_steps for rank in view.ranks)
    work = "no device work" if has_steps else "no device work and no steps"
    return f"The recording contains {work}."


def _what_is_here(view: View) -> str:
    ranks, files = view.job.ranks, view.job.discovery.files
    if not ranks:
        if len(files) == 1 and files[0].problem is not None:
            return f"no profiler trace found, only {files[0].path}: {files[0].problem}"
        kinds = Counter(
            file.kind.replace("_", " ") if file.size_bytes else "empty" for file in files
        )
        held = listed([f"{n} {kind}" for kind, n in kinds.most_common()], 4)
        noun = "file" if len(files) == 1 else "files"
        return f"no profiler trace found, only {held} {noun}"
    groups = Counter[str]()
    for trace in ranks:
        for group in ("cpu_ops", "annotations", "python", "runtime", "gpu"):
            groups[group] += len(trace.group(group))
    # Events of no known category are ranges too; alone, they are those of another program.
    others = sum(len(_other_rows(trace)) for trace in ranks)
    is_other_program = others and not groups.total()
    groups["annotations"] += others
    names = {
        "cpu_ops": ("operator",),
        "annotations": ("range",),
        "python": ("Python call",),
        "runtime": ("CUDA call",),
        "gpu": ("copy or fill", "copies and fills"),
    }
    held = listed([counted(n, *names[group]) for group, n in groups.most_common() if n], 4)
    marked = any(len(trace.group("other")) for trace in ranks)
    what = held or ("only the profiler's mark of itself" if marked else "no events with a time")
    if is_other_program:
        what += " of a program other than the PyTorch profiler"
    return f"no kernel ran in this recording of {counted(len(ranks), 'rank')}: it holds {what}"


def _on_hosts(view: View) -> str:
    own = operator_totals([rank for rank in view.ranks if rank.window_ns])[:_SHOWN]
    noun = "operators on the host"
    if not any(ns for _, ns in own):
        own, noun = _other_ranges(view)[:_SHOWN], "ranges, including the ranges inside them"
    if not any(ns for _, ns in own):
        return ""
    named = "; ".join(f"{short_name(name)} {time_text(ns / 1e6)}" for name, ns in own)
    return f"largest {noun}: {named}"


def _other_ranges(view: View) -> list[tuple[str, int]]:
    """Return the names of events of no known category with their time in ns, largest first."""
    total: Counter[str] = Counter()
    for trace in view.job.ranks:
        events = trace.group("other").take(_other_rows(trace))
        for name in distinct_values(events.name).tolist():
            total[trace.text(name)] += int(events.dur_ns[events.name == name].sum())
    return total.most_common()


def _other_rows(trace: RankTrace) -> I64:
    """Return the rows of events of no known category, without the profiler's mark of itself."""
    events = trace.group("other")
    names = [n for n in distinct_values(events.name).tolist()
             if not trace.text(n).startswith(_PROFILER_MARK)]  # fmt: skip
    return np.flatnonzero(np.isin(events.name, names)).astype(np.int64)


_PROFILER_SHOWN: Final = 6
_DO: Final = (
    "Record some steps with the PyTorch profiler on all ranks, or switch NCCL's Inspector on "
    "(NCCL_INSPECTOR_ENABLE=1): their records can be compared between ranks."
)


def profiler_answer(view: View) -> Answer | None:
    """Return what the events of NCCL's profiler plug-ins count, None where there are none."""
    from ccltui.parsers.side.nccl_profiler import count_events  # noqa: PLC0415

    files = [one for one in view.job.discovery.files
             if one.format is NCCL_PROFILER and one.duplicate_of is None]  # fmt: skip
    read, unread = [], []
    for file in files:
        try:
            with contained(file.path):
                read.append(count_events(Path(file.real_path), shown=file.path))
        except TraceError as error:
            unread.append(str(error))
    if not files:
        return None
    kinds: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    for one in read:
        kinds.update(one.counts)
        operations.update(one.operations)
    ranks = {(hash_, rank) for one in read for hash_ in one.communicators for rank in one.ranks}
    what = counted(operations.total(), "call of a collective", "calls of collectives")
    if transfers := kinds["P2P"] + kinds["P2p"]:
        sent = counted(transfers, "send or receive", "sends and receives")
        what = f"{what} and {sent}" if operations else sent
    on_ranks = f" on {counted(len(ranks), 'rank')}" if ranks else ""
    text = f"NCCL's profiler plug-in recorded {what}{on_ranks}"
    if not read:
        text = f"no events of NCCL's profiler plug-in can be read: {unread[0]}"
    lines = sum(one.unread for one in read)
    parts = [
        f"by operation: {_listed(operations)}" if operations else "",
        f"events by kind: {_listed(kinds)}" if kinds else "",
        f"{counted(lines, 'line')} could not be read" if lines else "",
        *(unread if read else ()),
    ]
    finding = Finding(
        kind="counts",
        text=sentence(text),
        more=" ".join(sentence(one) for one in parts if one),
        sure=Sure(what="high"),
        do=_DO,
    )
    return Answer(
        recording="nccl_profiler",
        findings=(finding,),
        unknown=(
            "Each process has a clock of its own, so these events do not show who arrives late.",
        ),
    )


def _listed(counts: Counter[str]) -> str:
    shown = [f"{number:,} {name}" for name, number in counts.most_common(_PROFILER_SHOWN)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more kinds" if more > 0 else "")


_RATES: Final = ("nccl_bus_bandwidth_gbs", "nccl_p2p_bus_bandwidth_gbs")
_TIMES: Final = ("nccl_collective_exec_time_microseconds", "nccl_p2p_exec_time_microseconds")
_MOST_GROUPS: Final = 6
_RECORDS_DO: Final = (
    "Write JSON lines with Inspector (NCCL_INSPECTOR_PROM_DUMP=0): they hold each collective, and "
    "show which ranks arrive late and which groups are slow."
)
_ONE_MOMENT: Final = "values of one moment do not tell how long a step takes"
_NO_WAITING: Final = ROOTED | {"Send", "Recv"}
_MOST_DEVICES: Final = 3
_Device = tuple[str, str]
"""Host, and name of the device there."""


def values_answer(view: View) -> Answer | None:
    """Return the bandwidths that devices reached last, None where there are no such values."""
    from ccltui.parsers.inspector.read_records import read_prometheus  # noqa: PLC0415

    files = [one for one in view.job.discovery.files
             if one.format is NCCL_INSPECTOR_PROM and one.duplicate_of is None]  # fmt: skip
    if not files:
        return None
    gauges: list[Gauge] = []
    unread, lines = list[str](), 0
    for file in files:
        try:
            with contained(file.path):
                found = read_prometheus(Path(file.real_path), shown=file.path)
        except TraceError as error:
            unread.append(str(error))
        else:
            gauges += found.gauges
            lines += found.unread
    kinds = _kinds(gauges)
    rows = [_reached(kind) for kind in kinds]
    devices = len({(one.node, one.gpu) for one in gauges})
    text = "no value of NCCL Inspector can be read"
    if rows:
        text = f"{rows[0]} on {counted(devices, 'device')}, at the last dump of NCCL Inspector"
    parts = [*rows[1:_MOST_GROUPS], f"{counted(lines, 'line')} could not be read" if lines else ""]
    reached = Finding(
        kind="run_log",
        text=sentence(text),
        more=" ".join(sentence(one) for one in (*parts, *unread) if one),
        saves_why=_ONE_MOMENT,
        sure=Sure(what="high"),
        do=_RECORDS_DO,
    )
    causes = [one for kind in kinds for one in (_late(kind), _slow(kind)) if one is not None]
    unknown = (
        "The text for Prometheus holds the means of one interval and no rank: what is late or slow "
        "in it may be so for a moment only.",
    )
    return Answer(recording="logs", findings=(*causes[:_MOST_GROUPS], reached), unknown=unknown)


class _Kind(Struct):
    """One operation and range of sizes of communicators of one name; values by device."""

    communicator: str
    operation: str
    size: str
    n_ranks: int
    n_nodes: int
    rates: dict[_Device, float]
    times_us: dict[_Device, float]

    @property
    def name(self) -> str:
        """Operation, sizes and communicator."""
        where = self.communicator or "a communicator without a name"
        return f"{self.operation} of {self.size} in {where}"


def _kinds(gauges: list[Gauge]) -> list[_Kind]:
    found: dict[tuple[str, str, str], _Kind] = {}
    for one in gauges:
        key = one.communicator, one.operation, one.size
        kind = found.setdefault(
            key, _Kind(*key, _number(one.n_ranks), _number(one.n_nodes), {}, {})
        )
        if one.name in _RATES:
            kind.rates[one.node, one.gpu] = one.value
        elif one.name in _TIMES:
            kind.times_us[one.node, one.gpu] = one.value
    return [one for one in found.values() if one.rates]


def _number(label: str) -> int:
    """Return what a label states; 0 where it is not there."""
    return int(label) if label.isdecimal() else 0


def _reached(kind: _Kind) -> str:
    values = sorted(kind.rates.values())
    times = kind.times_us.values()
    takes = f" and takes {time_text(median(times) / 1e3)}" if times else ""
    differ = ""
    if len(values) > 1 and values[0] > 0:
        spread = values[-1] / values[0] - 1
        differ = f" (devices differ by {percent(spread)})" if spread else " (all devices alike)"
        if spread > 1 / SLOW_SHARE - 1:  # of one communicator it is who waits, and no device's own
            differ = f" ({values[0]:.3g} to {values[-1]:.3g} by device)"
    return f"{kind.name} reaches {median(values):.3g} GB/s of bus bandwidth{takes}{differ}"


def _late(kind: _Kind) -> Finding | None:
    """Return the device that is last at a collective: it waits for nobody, and takes least."""
    times = kind.times_us
    # devices of one communicator only: as many of one host may be of as many communicators
    is_one = len(times) == kind.n_ranks and len({node for node, _ in times}) == kind.n_nodes
    if not is_one or len(times) <= 2 or kind.operation in _NO_WAITING:
        return None
    device = min(times, key=lambda one: (times[one], one))
    lag_us = median(times.values()) - times[device]
    if lag_us <= max(LEAST_LAG_US, LEAST_SHARE * times[device]):
        return None
    gpu, node = device[1], device[0]
    return Finding(
        kind="waiting_for_rank",
        text=sentence(
            f"the others wait for {gpu} of {node}: it arrives {time_text(lag_us / 1e3)} late at "
            f"{kind.name}, on average of the last interval (NCCL Inspector)"
        ),
        where=Where(host=node or None, group=kind.communicator or None),
        saves_why=_ONE_MOMENT,
        sure=Sure(what="medium", who="low"),
        do=_RECORDS_DO,
    )


def _slow(kind: _Kind) -> Finding | None:
    """Return the devices below the bandwidth of most, of communicators of one name."""
    usual = median(kind.rates.values())
    slow = sorted(one for one, rate in kind.rates.items() if rate < SLOW_SHARE * usual)
    # in one communicator every device has one transfer: a difference is waiting
    if not slow or kind.n_ranks == 0 or len(kind.rates) <= kind.n_ranks:
        return None
    hosts = {node for node, _ in slow}
    named = listed([f"{gpu} of {node}" for node, gpu in slow], _MOST_DEVICES)
    return Finding(
        kind="slow_link",
        text=sentence(
            f"{kind.name} reaches {median(kind.rates[one] for one in slow):.3g} GB/s of bus "
            f"bandwidth on {named}, {usual:.3g} on the others (NCCL Inspector)"
        ),
        where=Where(host=hosts.pop() if len(hosts) == 1 else None, group=kind.communicator or None),
        saves_why=_ONE_MOMENT,
        sure=Sure(what="medium", who="low"),
        do=_RECORDS_DO,
    )
