"""Checks of ``doctor``: whether metrics can be computed from a directory, one function per check.

Each takes the loaded job and returns one finding; no metric is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from ccltui import slow_path
from ccltui.metrics.card.card_check import check_card
from ccltui.metrics.card.effective_config import WORLD, config_of
from ccltui.metrics.model.classify import COMM, classes_of
from ccltui.metrics.model.rank_steps import steps_of
from ccltui.metrics.view.data_quality import beyond_world
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import UNTIMED, Group, RankTrace
from ccltui.parsers.device_times import DEAD_CLOCK, lost_times
from ccltui.parsers.errors import internal_error
from ccltui.parsers.job import Job
from ccltui.parsers.kineto.kineto_reader import NANOSECONDS
from ccltui.parsers.kineto.ranks_in_file import ONE_FILE_A_RANK, OPEN_THE_FILES
from ccltui.parsers.kineto.scanner import typed_event
from ccltui.parsers.merged_files import GUESSES
from ccltui.parsers.missing_ranks import ranges_text
from ccltui.parsers.names import listed, printable
from ccltui.parsers.numbers import counted, duration
from ccltui.parsers.system.machine_limits import wants_compiled_code

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
