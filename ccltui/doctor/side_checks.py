"""Checks of ``doctor`` on hangs, runs and machines: what stands, and counts of rows of panes."""

from __future__ import annotations

from collections import Counter

from ccltui.doctor.trace_checks import Finding, run_check
from ccltui.metrics import registry
from ccltui.metrics.cluster.cluster_table import cluster_table
from ccltui.metrics.hangs.find_hang import hang_of
from ccltui.metrics.runs.runs_table import run_table
from ccltui.metrics.view.job_view import View
from ccltui.parsers.discovery.run_settings import has_cluster, has_runs
from ccltui.parsers.job import Job
from ccltui.parsers.memory_snapshot import MEMORY_SNAPSHOT
from ccltui.parsers.names import listed
from ccltui.parsers.numbers import counted


def side_findings(job: Job) -> tuple[Finding, ...]:
    """Findings about runs and about machines, each if there are such files."""
    files = job.discovery.files
    stands = () if hang_of(job.discovery) is None else (run_check(hang, job),)
    checks = [runs] if has_runs(files) else []
    checks += [machines] if has_cluster(files) else []
    checks += [memory] if any(file.format is MEMORY_SNAPSHOT for file in files) else []
    return (*stands, *(run_check(check, job) for check in checks))


def hang(job: Job) -> Finding:
    """State who did not arrive, where dumps, logs of watchdogs or RAS tell of a hang."""
    found = hang_of(job.discovery)
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
