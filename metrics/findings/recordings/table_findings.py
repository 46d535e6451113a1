"""Findings on tables that `prof.key_averages().table()` prints: kernels and operators by time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Answer, Finding, Where
from ccltui.metrics.hangs.find_hang import LOGS
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.metrics.view.words import sentence, short_name
from ccltui.parsers.communication_kernels import communication_kernel
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.numbers import counted, percent, time_text
from ccltui.parsers.side.profiler_table import MARK, ProfilerTable, TableRow, read_tables
from ccltui.parsers.text.bounded_text import read_bounded

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_MOST_FILES: Final = 64
_MOST_BYTES: Final = 1 << 26
_SHOWN: Final = 3
_WAITS: Final = ("Synchronize", "_local_scalar_dense", "MemcpyAsync", "cudaMemcpy", "hipMemcpy")
"""Calls in which the host waits for the device: their time is not work of the host."""
_MUCH_COMMUNICATION: Final = 0.3
"""Share of kernel time from which communication is what a job of many ranks has to look at."""
_HOST_BOUND: Final = 2.0
"""Times the device time that the host spends in operators from which the device waits for it."""
_CANNOT: Final = (
    "A table of sums does not show when anything ran: waiting, overlap and single steps cannot be "
    "seen."
)
_DO: Final = (
    "Export the trace of the same profiler on every rank (prof.export_chrome_trace): it shows who "
    "waits for whom, and what overlaps."
)
_FEWER_LAUNCHES: Final = (
    "Launch less: torch.compile or CUDA graphs, larger batches, fewer synchronisations (item(), "
    "cpu(), print of tensors). "
)


def table_answer(view: View) -> Answer | None:
    """Return the findings on printed tables, None where there is none."""
    tables = _tables(view)
    if not tables:
        return None
    path, table = max(tables, key=lambda one: (one[1].device_us or 0.0, one[1].cpu_us))
    found = [one for one in (_host(table), _kernels(table)) if one is not None]
    unknown = [_CANNOT]
    if len(tables) > 1:
        which = f"{path} has the one that is described, with the most time"
        unknown.append(f"{counted(len(tables), 'table')} were found; {which}.")
    return Answer(recording="totals", findings=tuple(found), unknown=tuple(unknown))


def _tables(view: View) -> list[tuple[str, ProfilerTable]]:
    files = [file for file in view.job.discovery.files
             if file.format in LOGS and file.problem is None and file.duplicate_of is None
             and file.size_bytes <= _MOST_BYTES]  # fmt: skip
    found = []
    for file in files[:_MOST_FILES]:
        try:
            with contained(file.path):
                text = read_bounded(Path(file.real_path), shown=file.path)
                if MARK in text.head or MARK in text.tail:
                    found += [(file.path, table) for table in read_tables(text)]
        except TraceError:  # stated by doctor
            continue
    return found


def _kernels(table: ProfilerTable) -> Finding | None:
    kernels = sorted((row for row in table.rows if row.is_kernel),
                     key=lambda row: -(row.device_us or 0.0))  # fmt: skip
    whole = table.device_us or 0.0
    if not kernels or whole <= 0:
        return None
    listed = sum(row.device_us or 0.0 for row in kernels)
    whole = max(whole, listed)
    collectives = [row for row in kernels if communication_kernel(row.name) is not None]
    shared = sum(row.device_us or 0.0 for row in collectives) / whole
    by_title: dict[str, float] = {}
    for row in kernels:
        by_title[_title(row)] = by_title.get(_title(row), 0.0) + (row.device_us or 0.0)
    ordered = sorted(by_title.items(), key=lambda one: -one[1])[:_SHOWN]
    largest = "; ".join(f"{title} {percent(us / whole)}" for title, us in ordered)
    first = collectives[0] if shared >= _MUCH_COMMUNICATION else kernels[0]
    spent = f"{time_text(whole / 1e3)} of kernel time"
    if shared >= _MUCH_COMMUNICATION:
        each = (first.device_us or 0.0) / max(first.calls, 1) / 1e3
        text = (
            f"communication takes {percent(shared)} of {spent}: {_title(first)} "
            f"{time_text(each)} a call"
        )
        more = [f"largest kernels: {largest}", "such a kernel also waits for the other ranks"]
    else:
        text = (
            f"the kernel {_title(first)} takes {percent((first.device_us or 0) / whole)} of {spent}"
        )
        more = [f"largest kernels: {largest}"]
        if collectives:
            more.append(f"communication {percent(shared)}")
    return Finding(
        kind="kernel_totals",
        text=sentence(text),
        more=" ".join(map(sentence, more)),
        where=Where(kernel=bare_name(first.name)),
        sure=Sure(what="high"),
        do=_DO,
    )


def _title(row: TableRow) -> str:
    kernel = communication_kernel(row.name)
    if kernel is not None:
        return f"{kernel.operation} ({kernel.library})"
    return short_name(bare_name(row.name))


def _host(table: ProfilerTable) -> Finding | None:
    operators = sorted((row for row in table.rows if row.cpu_us > 0), key=lambda row: -row.cpu_us)
    if not operators or table.cpu_us <= 0:
        return None
    device = table.device_us or 0.0
    largest = _listed(operators, table.cpu_us)
    waits = sum(row.cpu_us for row in operators if any(word in row.name for word in _WAITS))
    busy = table.cpu_us - waits
    host = time_text((busy if device else table.cpu_us) / 1e3)
    first = operators[0]
    if device and busy >= _HOST_BOUND * device:
        text = (
            f"the host spends {host} in operators and calls, the device computes "
            f"{time_text(device / 1e3)}: it mostly waits for the host"
        )
        do = _FEWER_LAUNCHES + _DO
    elif device:
        return None
    else:
        share = percent(first.cpu_us / table.cpu_us)
        text = f"the operator {short_name(first.name)} takes {share} of {host} on the host"
        do = _DO
    return Finding(
        kind="kernel_totals" if not device else "host_bound",
        text=sentence(text),
        more=sentence(f"most time of its own: {largest}"),
        where=Where(kernel=first.name),
        saves_why="sums do not show how much time could be saved",
        sure=Sure(what="high" if not device else "medium"),
        do=do,
    )


def _listed(rows: Sequence[TableRow], whole: float) -> str:
    return "; ".join(
        f"{short_name(row.name)} {percent(row.cpu_us / whole)}" for row in rows[:_SHOWN]
    )
