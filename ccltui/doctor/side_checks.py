"""Checks of ``doctor`` on files beside the traces, or without any: what they answer, and where.

Hangs, runs and machines are checked; the counts are those of the panes that show them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ccltui.doctor.trace_checks import Finding, run_check
from ccltui.metrics import registry
from ccltui.metrics.cluster.cluster_table import cluster_table
from ccltui.metrics.hangs.find_hang import hang_of
from ccltui.metrics.runs.runs_table import run_table
from ccltui.metrics.view.job_view import View
from ccltui.parsers.cluster import (
    CLUSTER_BENCHMARK,
    NCCL_LOG,
    NCCL_RAS,
    NCCL_TESTS,
    NCCL_TESTS_JSON,
)
from ccltui.parsers.discovery.run_settings import has_cluster, has_runs
from ccltui.parsers.discovery.sniff import UTF16
from ccltui.parsers.errors import TraceError
from ccltui.parsers.flight_recorder import FLIGHT_RECORD
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.inspector import NCCL_INSPECTOR, NCCL_INSPECTOR_PROM
from ccltui.parsers.job import Job
from ccltui.parsers.memory_snapshot import MEMORY_SNAPSHOT
from ccltui.parsers.names import listed
from ccltui.parsers.nccl_profiler import NCCL_PROFILER
from ccltui.parsers.nsys import NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.numbers import counted
from ccltui.parsers.runs import STEP_LOG, TRAINING_LOG, TRAINING_METRICS, WATCHDOG_LOG
from ccltui.parsers.side import EXPERT_STATS, SERVING_RESULTS
from ccltui.parsers.side.unread_files import ARCHIVE, OTHER_TRACE

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
    SERVING_RESULTS.kind: "--metric ttft, --metric tpot",
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
    from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text  # noqa: PLC0415  (numpy)

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
