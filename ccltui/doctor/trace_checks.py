"""Checks of ``doctor`` on traces and on files beside them, one function per check.

Each takes the loaded job and returns one finding; no metric is computed here.

Hangs, runs and machines are checked; the counts are those of the panes that show them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from ccltui import slow_path
from ccltui.metrics import registry
from ccltui.metrics.card.check_and_draft import check_card
from ccltui.metrics.card.effective_config import WORLD, config_of
from ccltui.metrics.cluster.cluster_table import cluster_table
from ccltui.metrics.hangs.find_hang import hang_of
from ccltui.metrics.model.classify import COMM, classes_of
from ccltui.metrics.model.rank_steps import steps_of
from ccltui.metrics.runs.completeness import run_table
from ccltui.metrics.view.data_quality import beyond_world
from ccltui.metrics.view.job_view import View
from ccltui.parsers.cluster import (
    CLUSTER_BENCHMARK,
    NCCL_LOG,
    NCCL_RAS,
    NCCL_TESTS,
    NCCL_TESTS_JSON,
)
from ccltui.parsers.columns import UNTIMED, Group, RankTrace
from ccltui.parsers.device_times import DEAD_CLOCK, lost_times
from ccltui.parsers.discovery.run_settings import has_cluster, has_runs
from ccltui.parsers.discovery.sniff import UTF16
from ccltui.parsers.errors import TraceError, internal_error
from ccltui.parsers.flight_recorder import FLIGHT_RECORD
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.inspector import NCCL_INSPECTOR, NCCL_INSPECTOR_PROM
from ccltui.parsers.job import Job
from ccltui.parsers.kineto.kineto_reader import NANOSECONDS
from ccltui.parsers.kineto.ranks_in_file import ONE_FILE_A_RANK, OPEN_THE_FILES
from ccltui.parsers.kineto.scanner import typed_event
from ccltui.parsers.machine_limits import wants_compiled_code
from ccltui.parsers.merged_files import GUESSES
from ccltui.parsers.nsys import NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.numbers import counted, duration
from ccltui.parsers.runs import STEP_LOG, TRAINING_LOG, TRAINING_METRICS, WATCHDOG_LOG
from ccltui.parsers.safe_text import listed, printable
from ccltui.parsers.side import (
    EXPERT_STATS,
    MEMORY_SNAPSHOT,
    NCCL_PROFILER,
    NVPROF_TABLE,
    SERVING_RESULTS,
    SUMMED_TABLE,
)
from ccltui.parsers.side.unread_files import ARCHIVE, OTHER_TRACE
from ccltui.parsers.window import ranges_text

State = Literal["ok", "warning", "problem", "unknown"]

_NOTHING_READ: Final = "no file could be read"
_METADATA = (("op", "operation"), ("in_elems", "size"), ("group", "group"))


class Finding(Struct, frozen=True):
    """Outcome of one check: one sentence, and one on what to do, "" where that is unknown."""

    check: str
    state: State
    message: str
    fix: str = ""
    is_internal: bool = False  # the check itself failed


Check = Callable[[Job], Finding]


def ranks(job: Job) -> Finding:
    """Compare the ranks found with the world size in the files."""
    found = len({trace.rank for trace in job.ranks if trace.rank is not None})
    if job.conflicting_ranks:
        claims = listed([str(rank) for rank in job.conflicting_ranks])
        fix = "keep the files of one run in one directory, or number them with --rank-map"
        return Finding("ranks", "problem", f"several files state rank {claims}", fix)
    conflict = [note.message for note in job.capture.notes if note.code == "world_size_conflict"]
    if conflict:
        fix = "keep the files of one run in one directory"
        return Finding("ranks", "problem", conflict[0], fix)
    beyond = beyond_world(job)
    if beyond:
        fix = "keep the files of one run in one directory"
        return Finding("ranks", "problem", beyond, fix)
    if job.world_size is None:
        return Finding(
            "ranks", "unknown", f"{counted(found, 'rank')}; no file states the world size"
        )
    if job.missing_ranks:
        missing = ranges_text(job.missing_ranks)
        message = f"{found} of {counted(job.world_size, 'rank')}; missing {missing}"
        fix = "copy their files here too, or check their logs for the reason that they wrote none"
        return Finding("ranks", "warning", message, fix)
    return Finding("ranks", "ok", f"all {counted(job.world_size, 'rank')}")


def rank_identity(job: Job) -> Finding:
    """Check the sources of the ranks of files."""
    if not job.ranks:
        return Finding("rank identity", "unknown", _NOTHING_READ)
    nameless = [trace.source.path for trace in job.ranks if trace.rank is None]
    by_name = [trace.source.path for trace in job.ranks if trace.rank_source == "file name"]
    if nameless:
        verb, them = ("states", "it") if len(nameless) == 1 else ("state", "them")
        message = f"{listed(nameless)} {verb} no rank"
        return Finding("rank identity", "warning", message, f"give {them} one with --rank-map")
    if by_name:
        message = f"the file name alone gives the rank of {listed(by_name)}"
        return Finding("rank identity", "warning", message)
    sources = listed(sorted({trace.rank_source for trace in job.ranks}))
    if any(trace.rank_source in GUESSES for trace in job.ranks):
        message = f"guessed from the {sources}: no file states a rank"
        return Finding("rank identity", "warning", message, "give them one with --rank-map")
    return Finding("rank identity", "ok", f"from {sources}")


def files_read(job: Job) -> Finding:
    """Check for files that could not be read, or only partly."""
    cut = _lost_parts(job)
    if job.failures:
        first = job.failures[0].error
        message = f"{counted(len(job.failures), 'file')} could not be read; {first}"
        says_what_to_do = first.endswith((ONE_FILE_A_RANK, OPEN_THE_FILES, NANOSECONDS))
        fix = "" if says_what_to_do else _COPY_AGAIN
        return Finding("files", "problem", f"{message}; {cut}" if cut else message, fix)
    if cut:
        return Finding("files", "warning", cut, _COPY_AGAIN)
    noted = len({trace.source.path for trace in job.ranks if trace.notes})
    read = len({trace.source.path for trace in job.ranks})
    hint = f"; {noted} of them with notes, see below" if noted else ""
    return Finding("files", "ok", f"{counted(read, 'file')} read whole{hint}")


def _lost_parts(job: Job) -> str:
    """Return which files are cut off, and which are damaged; "" for none."""
    damaged: dict[str, bool] = {}
    for trace in job.ranks:
        if trace.truncated:
            damaged[trace.source.path] = any(n.code == "damaged_database" for n in trace.notes)
    kinds = (("cut off before their end", False), ("damaged", True))
    texts = [
        f"{text}: {listed(paths)}"
        for text, kind in kinds
        if (paths := [path for path, is_damaged in damaged.items() if is_damaged is kind])
    ]
    return "; ".join(texts)


_COPY_AGAIN: Final = (
    "let training continue until every rank has exported its trace; copy the files again"
)


def gpu_events(job: Job) -> Finding:
    """Check whether the device was traced, and whether the job used one."""
    if not job.ranks:
        return Finding("GPU events", "unknown", _NOTHING_READ)
    without = [trace.label for trace in job.ranks if not _recorded_events(trace)]
    if not without:
        total = sum(map(_recorded_events, job.ranks))
        return Finding("GPU events", "ok", f"{total:,} on {counted(len(job.ranks), 'rank')}")
    # A file lists the events of the device after those of the host, so a cut loses them first.
    cut = [trace.label for trace in job.ranks if trace.truncated and trace.label in without]
    if cut:
        message = f"none on {_ranks_text(without)}; cut off before the end: {_ranks_text(cut)}"
        return Finding("GPU events", "warning", message, _COPY_AGAIN)
    foreign = [trace.label for trace in job.ranks if not trace.is_of_profiler]
    if foreign and foreign == without:
        message = f"no event of a category that PyTorch writes: {_ranks_text(foreign)}"
        fix = "open what torch.profiler exports: these files are of another program, or re-written"
        return Finding("GPU events", "problem", message, fix)
    message = f"CPU-only trace: {_ranks_text(without)}"
    if len(without) < len(job.ranks):
        return Finding("GPU events", "warning", message, _RECORD_DEVICE)
    backends = {trace.backend for trace in job.ranks if trace.backend}
    words = {word for backend in backends for word in re.split(r"[^a-z]+", backend.lower())}
    if words and words <= _OF_HOSTS:
        fix = "nothing, if the job is meant to run on CPUs; metrics of devices stay unavailable"
        return Finding("GPU events", "warning", f"{message}; the backend is gloo", fix)
    if words:
        message += f", and yet the backend is {listed(sorted(map(printable, backends)))}"
    return Finding("GPU events", "problem", message, _RECORD_DEVICE)


def _recorded_events(trace: RankTrace) -> int:
    """Number of device events, those without a usable time among them."""
    return len(trace.group("gpu")) + len(trace.group(UNTIMED)) or len(_wrong_clocks([trace]))


def _wrong_clocks(traces: Iterable[RankTrace]) -> list[str]:
    return [one.label for one in traces if any(note.code == DEAD_CLOCK for note in one.notes)]


def device_times(job: Job) -> Finding:
    """Check that the times of device events can be true."""
    counts = {trace.label: lost_times(trace) for trace in job.ranks}
    doubtful = [label for label, count in counts.items() if count]
    if not any(_recorded_events(trace) for trace in job.ranks):
        return Finding("device times", "unknown", "no event of a device")
    if not doubtful:
        return Finding("device times", "ok", "all are plausible")
    wrong = _wrong_clocks(job.ranks)
    number = counted(sum(counts.values()), "device event")
    times = "an impossible time" if sum(counts.values()) == 1 else "impossible times"
    message = f"{number} with {times} on {_ranks_text(doubtful)}, see the notes"
    if wrong:
        message = f"{_ranks_text(wrong)}: no device times, the clock of the device is wrong"
        return Finding("device times", "problem", message, _NEWER_DRIVER)
    return Finding("device times", "warning", message, _NEWER_DRIVER)


_NEWER_DRIVER: Final = (
    "nothing if they are few (they are not timed); otherwise record again, with a newer driver, "
    "CUPTI or ROCm"
)
_OF_HOSTS: Final = frozenset({"gloo", "cpu", ""})
_RECORD_DEVICE: Final = (
    "record ProfilerActivity.CUDA, and not under nsys: CUPTI serves one profiler, the second one "
    "records no device events"
)


def execution_traces(job: Job) -> Finding:
    """Check that the observer that writes shapes and dependencies ran on every rank."""
    found = {
        file.rank
        for file in job.discovery.files
        if file.format.completes is not None and file.problem is None and file.rank is not None
    }
    ranks = {trace.rank for trace in job.ranks if trace.rank is not None}
    if not found:
        return Finding("execution traces", "ok", "none")
    lacking = listed([str(rank) for rank in sorted(ranks - found)])
    if not lacking:
        return Finding("execution traces", "ok", f"on {counted(len(found), 'rank')}")
    fix = "register an ExecutionTraceObserver with the profiler on every rank"
    return Finding("execution traces", "warning", f"none on rank {lacking}", fix)


def step_markers(job: Job) -> Finding:
    """Check that every rank has steps, and the same ones."""
    if not job.ranks:
        return Finding("step markers", "unknown", _NOTHING_READ)
    steps = {trace.label: steps_of(trace) for trace in job.ranks}
    without = [label for label, (found, _) in steps.items() if not found]
    if without:
        message = f"none on {_ranks_text(without)}, so step times and throughput are not known"
        fix = "call step() of the profiler after each training step"
        return Finding("step markers", "warning", message, fix)
    common = set.intersection(*({step.id for step in found} for found, _ in steps.values()))
    markers = listed(sorted({marker for _, marker in steps.values() if marker}))
    longest = max(len(found) for found, _ in steps.values())
    if len(common) < longest:
        message = f"{markers}: only {len(common)} of {counted(longest, 'step')} on every rank"
        fix = "give the profilers of all ranks one schedule"
        return Finding("step markers", "warning", message, fix)
    return Finding("step markers", "ok", f"{markers}: {counted(longest, 'step')} on every rank")


def collective_metadata(job: Job) -> Finding:
    """Count collective kernels whose operation, size and group are recorded."""
    stated = np.zeros(len(_METADATA), np.int64)
    total = 0
    for trace in job.ranks:
        gpu, args = trace.group("gpu"), trace.collective_args
        rows = gpu.args[classes_of(trace) == COMM]
        total += len(rows)
        rows = rows[rows >= 0]
        stated += [np.count_nonzero(getattr(args, column)[rows] >= 0) for column, _ in _METADATA]
    if not total:
        return Finding("collective metadata", "unknown", _without_kernels(job))
    parts = [f"the {noun} of {count:,}" for count, (_, noun) in zip(stated, _METADATA, strict=True)]
    message = f"{counted(total, 'collective kernel')}; the files state {listed(parts)}"
    if stated.min() == total:
        return Finding("collective metadata", "ok", message)
    if not _host_events(job, "cpu_ops", "record_param_comms"):
        message += "; no record_param_comms beside them"
    fix = "PyTorch 2.3 and newer write them; older traces contain types and times only"
    return Finding("collective metadata", "warning", message, fix)


def _without_kernels(job: Job) -> str:
    of_gloo = _host_events(job, "annotations", "gloo:")
    if not of_gloo:
        return "no collective kernel in these traces"
    return f"no collective kernel; {of_gloo:,} operations of gloo, which state no group"


def _host_events(job: Job, group: Group, prefix: str) -> int:
    """Number of host events whose names begin with ``prefix``."""
    count = 0
    for trace in job.ranks:
        names, counts = np.unique(trace.group(group).name, return_counts=True)
        of_name = zip(names.tolist(), counts.tolist(), strict=True)
        count += sum(many for name, many in of_name if trace.text(name).startswith(prefix))
    return count


def process_groups(job: Job) -> Finding:
    """Check that the process groups list their ranks and describe their role."""
    groups = [group for trace in job.ranks for group in trace.process_groups]
    if not groups:
        message = "no table of process groups: parallel dimensions are guessed or unknown"
        fix = "PyTorch 2.3 and newer write it; state dp_shard, tp, pp, … in the workload card"
        return Finding("process groups", "warning", message, fix)
    described = sum(group.description not in {"", "undefined"} for group in groups)
    with_ranks = sum(bool(group.ranks) for group in groups)
    message = (
        f"{counted(len(groups), 'process group')}: {with_ranks:,} with a list of ranks, "
        f"{described:,} with a role"
    )
    state: State = "ok" if with_ranks == described == len(groups) else "warning"
    fix = "" if state == "ok" else "state dp_shard, tp, pp, … in the workload card"
    return Finding("process groups", state, message, fix)


def workload_card(job: Job) -> Finding:
    """Check the workload card against the traces and the run."""
    if job.card_problem is not None:
        return Finding("workload card", "problem", job.card_problem)
    if job.card is None:
        fix = "ccltui card init DIR writes a draft"
        return Finding(
            "workload card", "warning", "none, so throughput and model FLOPs are not known", fix
        )
    ran = config_of(job)
    contradictions = [
        *check_card(job),
        # A contradicting world size of the card is among those of check_card.
        *(one.message for one in ran.conflicts if one.field != WORLD),
    ]
    unusable = [note.message for note in job.card.notes if note.code == "card_value"]
    if unusable:
        fix = "correct the card: these values are not used"
        return Finding("workload card", "problem", "; ".join([*unusable, *contradictions]), fix)
    if contradictions:
        fix = "correct the card: values of the traces and of the run take precedence"
        return Finding("workload card", "warning", "; ".join(contradictions), fix)
    return Finding("workload card", "ok", f"{job.card.path} agrees with the traces")


def profilers(job: Job) -> Finding:
    """Check for two profilers in one process: the second one to use CUPTI gets no GPU events."""
    files = job.discovery.files
    nsys = sorted({found.kind for found in files if found.format.profiler == "nsys"})
    kineto = any(found.format.profiler == "torch" for found in files)
    if not nsys or not job.ranks or not kineto:
        return Finding("profilers", "ok", "traces of one profiler")
    if job.capture.source == "nsys":
        return Finding("profilers", "ok", f"Kineto beside {listed(nsys)}; nsys is used")
    without = [trace.label for trace in job.ranks if not len(trace.group("gpu"))]
    if without:
        message = (
            f"nsys and PyTorch traced together and {_ranks_text(without)} has no GPU events: "
            "CUPTI serves one profiler"
        )
        return Finding("profilers", "problem", message, "record them in two runs")
    return Finding("profilers", "ok", f"Kineto beside {listed(nsys)}; Kineto is used")


def capture_windows(job: Job) -> Finding:
    """Check that all ranks were traced at the same time, on their clocks as recorded."""
    spans = [(trace.first_ns, trace.last_ns) for trace in job.ranks]
    known = [(start, end) for start, end in spans if start is not None and end is not None]
    if len(known) < 2:
        return Finding("capture windows", "unknown", "fewer than two ranks with events")
    latest_start = max(start for start, _ in known)
    earliest_end = min(end for _, end in known)
    longest = max(end - start for start, end in known)
    common = earliest_end - latest_start
    if common < longest / 2 and (corrected := _on_corrected_clocks(job)) is not None:
        return corrected
    if common <= 0:
        message = f"the recordings do not overlap: they are {_span(-common)} apart"
        fix = "take all files from one run and one capture"
        return Finding("capture windows", "problem", message, fix)
    message = f"the recordings overlap for {_span(common)} of at most {_span(longest)}"
    if common >= longest / 2:
        return Finding("capture windows", "ok", message)
    return Finding("capture windows", "warning", message, "give all ranks one schedule")


def _on_corrected_clocks(job: Job) -> Finding | None:
    """Check whether all ranks share their time once collectives correct the clocks.

    Metrics use these clocks. None where collectives do not tell the clock of every rank, or where
    the ranks do not share their time on them either.
    """
    view = View(job)
    clocks = [view.clocks.clocks[trace.label] for trace in job.ranks]
    if not all(clock.known for clock in clocks) or len({clock.component for clock in clocks}) > 1:
        return None
    spans = [
        view.on_job_clock(trace.label, np.array([trace.first_ns, trace.last_ns], np.int64))
        for trace in job.ranks
        if trace.first_ns is not None
    ]
    common = int(min(end for _, end in spans) - max(start for start, _ in spans))
    longest = int(max(end - start for start, end in spans))
    if common < longest / 2:
        return None
    offsets = [clock.offset_ns for clock in clocks]
    apart_ns = int(max(offsets) - min(offsets))
    message = (
        f"clocks differ by {_span(apart_ns)}, corrected from collectives; the recordings overlap "
        f"for {_span(common)} of at most {_span(longest)}"
    )
    fix = "nothing for metrics, which use the corrected clocks; set the clocks of the hosts by NTP"
    if apart_ns > _ONE_CAPTURE_NS:
        fix = f"check that all files are of one run and one capture; if they are, {fix}"
    return Finding("capture windows", "warning", message, fix)


_ONE_CAPTURE_NS: Final = 60_000_000_000
"""Difference of clocks that NTP never leaves for long: two captures of one program look the same
from it on, and so do hosts in different time zones."""


def decoder(_job: Job) -> Finding:
    """Report which of the two readers of Kineto files is in use; both give the same columns."""
    if not wants_compiled_code():
        message = "the general decoder: CCLTUI_ACCEL=0 turns the compiled scanner off"
        return Finding("decoder", "ok", message)
    if typed_event.compiled():
        return Finding("decoder", "ok", "the compiled scanner")
    message = "the general decoder, about four times slower: the scanner was not compiled"
    return Finding("decoder", "warning", message, slow_path.remedy())


CHECKS: Final[Sequence[Check]] = (
    files_read,
    ranks,
    rank_identity,
    capture_windows,
    gpu_events,
    device_times,
    execution_traces,
    step_markers,
    collective_metadata,
    process_groups,
    workload_card,
    profilers,
    decoder,
)


def check(job: Job) -> tuple[Finding, ...]:
    """All findings of a job with traces, or with files that should have been some."""
    return tuple(run_check(one, job) for one in CHECKS)


def run_check(check: Check, job: Job) -> Finding:
    """Run a check; an exception becomes a finding, so that the other checks still run."""
    try:
        return check(job)
    except Exception as error:
        name = check.__name__.replace("_", " ")
        return Finding(name, "problem", internal_error(error), is_internal=True)


def _span(time_ns: int) -> str:
    return duration(time_ns)


def _ranks_text(labels: Iterable[str]) -> str:
    names = list(labels)
    return f"rank {names[0]}" if len(names) == 1 else f"ranks {listed(names)}"


_REPORTS: Final = "ccltui DIR (the Reports pane, 9), ccltui stats DIR, ccltui diff A B"
_RUNS: Final = "ccltui DIR (the Runs pane, 7), --metric run_throughput, ccltui diff A B"
_HANG: Final = "ccltui explain DIR, --metric hang_verdict"
SHOWN_BY: Final[dict[str, str]] = {
    CLUSTER_BENCHMARK.kind: "ccltui DIR (the Cluster pane, 8), --metric cluster_outliers, "
    "--metric cluster_plausibility, ccltui diff A B",
    NCCL_TESTS.kind: "--metric nccl_tests_busbw",
    NCCL_TESTS_JSON.kind: "--metric nccl_tests_busbw",
    NCCL_RAS.kind: _HANG,
    WATCHDOG_LOG.kind: _HANG,
    FLIGHT_RECORD.kind: _HANG,
    NCCL_INSPECTOR.kind: "ccltui explain DIR, ccltui DIR (the Hours pane, ^), "
    "--metric duration_lag, --metric inspector_busbw",
    NCCL_INSPECTOR_PROM.kind: "ccltui explain DIR",
    MEMORY_SNAPSHOT.kind: "ccltui explain DIR, --metric memory_peaks",
    NCCL_LOG.kind: "--metric nccl_transport",
    TRAINING_METRICS.kind: _RUNS,
    STEP_LOG.kind: _RUNS,
    TRAINING_LOG.kind: _RUNS,
    NSYS_TEXT.kind: _REPORTS,
    NSYS_TEXT_TRACE.kind: _REPORTS,
    SERVING_RESULTS.kind: "ccltui explain DIR, --metric ttft, --metric tpot",
    SUMMED_TABLE.kind: "ccltui explain DIR",
    NVPROF_TABLE.kind: "ccltui explain DIR",
    EXPERT_STATS.kind: "--metric token_to_expert_assignment",
}
"""What shows or uses the content of a kind of files that need no trace."""
_TO_TRACE: Final = (
    "let training reach the first window of its profiler, after the wait and warm-up steps, and "
    "check the log"
)
_TO_BEGIN: Final = (
    "check the path; docs/collect.md shows how to record a job, ccltui demo writes one to look at"
)
_COUNTED: Final = (
    "ccltui explain DIR counts the events of NCCL's profiler plug-in; for times of a step record "
    "with the PyTorch profiler"
)
_REPORTS_LISTED: Final = 6


_NAMED: Final = (ARCHIVE, OTHER_TRACE)


def answering(job: Job) -> list[FoundFile]:
    """Return the files that are of use without any trace."""
    files = job.discovery.files
    return [
        one
        for one in files
        if one.format.has_own_metrics and one.problem is None and one.duplicate_of is None
    ]


def without_traces(job: Job) -> tuple[Finding, ...]:
    """Findings on a directory in which no trace can be opened."""
    files = answering(job)
    if not files:
        return (_nothing(job.discovery.files),)
    kinds = Counter(file.kind for file in files)
    held = [_counted(count, kind) for kind, count in sorted(kinds.items())]
    ways = dict.fromkeys(SHOWN_BY[kind] for kind in sorted(kinds))
    message = f"no trace; without one {listed(held)} can be used"
    found = [Finding("files", "ok", message, "; ".join(ways))]
    texts = [file for file in files if file.format is NSYS_TEXT]
    return (*found, *([_reports(texts)] if texts else []))


def _nothing(files: Sequence[FoundFile]) -> Finding:
    """What to do where no file is of use: archives and other traces say what they are."""
    named = [one for one in files if one.format in _NAMED or one.problem == UTF16]
    is_counted = any(one.format is NCCL_PROFILER for one in files)
    otherwise = _COUNTED if is_counted else _TO_TRACE if files else _TO_BEGIN
    fix = f"{named[0].path}: {named[0].problem}" if named else otherwise
    return Finding("files", "problem", "no trace that can be opened", fix)


def _counted(count: int, kind: str) -> str:
    words = kind.replace("_", " ")
    return f"{count} {words} file{'' if count == 1 else 's'}"


def _reports(files: Sequence[FoundFile]) -> Finding:
    """Check the tables in texts of nsys stats, and name what such texts lack."""
    from ccltui.parsers.nsys.stats_text import read_stats_text  # noqa: PLC0415  (numpy)

    reports: Counter[str] = Counter()
    unread = []
    for file in files:
        try:
            stats = read_stats_text(Path(file.real_path), shown=file.path)
        except TraceError as error:
            unread.append(str(error))
            continue
        reports.update(list(dict.fromkeys(section.report for section in stats.tables)))
        if not stats.tables:
            unread.append(f"{file.path}: no table")
    tables = listed([f"{name} ({count})" for name, count in reports.most_common()], _REPORTS_LISTED)
    message = f"tables: {tables}" if reports else "no table"
    if unread:
        fix = "write them again: nsys stats --report cuda_gpu_trace,nvtx_sum FILE.nsys-rep"
        return Finding("reports", "warning", f"{message}; {listed(unread, 3)}", fix)
    fix = (
        "process groups, sizes of messages and host events are in no text: for metrics of ranks "
        "export the report, nsys export -t sqlite FILE.nsys-rep"
    )
    return Finding("reports", "ok", message, fix)


def side_findings(job: Job) -> tuple[Finding, ...]:
    """Findings about runs and about machines, each if there are such files."""
    files = job.discovery.files
    stands = () if hang_of(job.discovery, job.store) is None else (run_check(hang, job),)
    checks = [runs] if has_runs(files) else []
    checks += [machines] if has_cluster(files) else []
    checks += [memory] if any(file.format is MEMORY_SNAPSHOT for file in files) else []
    return (*stands, *(run_check(check, job) for check in checks))


def hang(job: Job) -> Finding:
    """State who did not arrive, where dumps, logs of watchdogs or RAS tell of a hang."""
    found = hang_of(job.discovery, job.store)
    if found is None or found.kind in ("nothing", "late"):
        return Finding("hang", "ok", "no watchdog gave up" if found is None else found.text)
    return Finding("hang", "problem", found.text, found.do)


def memory(job: Job) -> Finding:
    """State who ran out of memory, and snapshots that cannot be read."""
    result = registry.find("memory_peaks").run(View(job))
    if result.status == "unavailable":
        return Finding("memory", "warning", "; ".join(one.message for one in result.reasons))
    failed, unread = result.details["oom_ranks"], result.details["unread"]
    if failed:
        fix = "ccltui explain DIR, and --metric memory_peaks --detail: who holds the memory"
        return Finding("memory", "problem", f"out of memory: rank {listed(failed)}", fix)
    if unread:
        return Finding("memory", "warning", "; ".join(unread[:_MOST_UNREAD]))
    return Finding("memory", "ok", "no allocation failed in the events of the snapshots")


_MOST_UNREAD = 4


def runs(job: Job) -> Finding:
    """Check for runs that did not complete, and files of runs that cannot be read."""
    rows = run_table(job.discovery)
    lacking = [row.name for row in rows if row.completeness.state == "incomplete"]
    doubtful = [row.name for row in rows if row.is_doubtful and row.name not in lacking]
    parts = [counted(len(rows), "run")]
    parts += [f"incomplete: {listed(lacking)}"] if lacking else []
    parts += [f"with remarks: {listed(doubtful)}"] if doubtful else []
    if not lacking and not doubtful:
        return Finding("runs", "ok", f"{parts[0]}, complete")
    fix = "the Runs pane (7) and --metric run_completeness list what each lacks"
    return Finding("runs", "warning", "; ".join(parts), fix)


def machines(job: Job) -> Finding:
    """Check for impossible values, deviating devices, warnings, and unreadable files."""
    rows = cluster_table(job.discovery)
    marks = Counter(row.mark for row in rows if row.mark)
    if not marks:
        return Finding("machines", "ok", f"{counted(len(rows), 'fact')}, none in doubt")
    counts = ", ".join(f"{count} {mark}" for mark, count in marks.most_common())
    fix = (
        "the Cluster pane (8), --metric cluster_outliers and --metric cluster_plausibility give "
        "the reasons"
    )
    return Finding("machines", "warning", f"of {counted(len(rows), 'fact')}: {counts}", fix)
