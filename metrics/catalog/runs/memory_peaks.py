"""Memory of the devices: peaks, fragmentation and failed allocations, from memory snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import require_traces, side_answer
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.side import MEMORY_SNAPSHOT

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile

_MOST_BYTES: Final = 1 << 31
"""Of all files together, which are read one after the other; the largest are left out."""


@metric(
    unit="bytes",
    definition=(
        "Largest memory that PyTorch's allocator reserved on a device, over the memory snapshots "
        "of all ranks: since the oldest event of the snapshot, whose ring keeps the last events "
        "only; where it has no events, at the snapshot. By rank and device also the peak of what "
        "was in use, the share of the reserved memory that is free for reuse, the largest free "
        "block, allocations that failed, and where the largest memory in use was allocated."
    ),
    needs=("memory snapshot of PyTorch",),
    keys=("peak_reserved", "peak_allocated", "num_oom", "oom_ranks", "devices", "unread"),
    label="reserved memory",
    higher_is_better=False,
    needs_traces=False,
)
def memory_peaks(view: View) -> Result:
    """Peaks of the device with most reserved memory; devices in that order."""
    if not view.job.ranks and not view.job.discovery.files:
        require_traces(view)
    files = tuple(
        file
        for file in view.job.discovery.files
        if file.format is MEMORY_SNAPSHOT and file.duplicate_of is None
    )
    if not files:
        raise refuse("no_side_file", "no memory snapshot of PyTorch here")
    rows, unread = _read(files)
    if not rows:
        why = unread[0] if unread else "no device is in the memory snapshots here"
        raise refuse("no_side_file", why)
    failed = [row for row in rows if row["oom"]]
    known = [row["peak_allocated"] for row in rows if row["peak_allocated"] is not None]
    details: dict[str, Any] = {
        "peak_reserved": _reserved(rows[0]),
        "peak_allocated": max(known, default=None),
        "num_oom": _num_oom(failed),
        "oom_ranks": sorted({row["rank"] for row in failed}, key=lambda one: (len(one), one)),
        "devices": [dict(row) for row in rows],
        "unread": list(unread),
    }
    return side_answer(
        memory_peaks,
        view,
        details,
        files=sorted({row["file"] for row in rows}),
        basis={"value": "since the oldest event that the ring of a snapshot keeps"},
        reasons=[Reason("no_side_file", text) for text in unread],
    )


def _num_oom(rows: Sequence[dict[str, Any]]) -> int:
    """Return the number of failed allocations; later snapshots of a rank hold its earlier ones."""
    found = {
        (row["rank"], row["device"], event["asked"], event["time_us"])
        for row in rows
        for event in row["oom"]
    }
    return len(found)


def _reserved(row: dict[str, Any]) -> int:
    peak = row["peak_reserved"]
    return int(row["reserved"] if peak is None else peak)


@lru_cache(maxsize=8)
def _read(files: tuple[FoundFile, ...]) -> tuple[Sequence[dict[str, Any]], tuple[str, ...]]:
    """Return a row for each file and device, most reserved first, and why files were not read."""
    from ccltui.parsers.side.memory_snapshot import read_memory_snapshot  # noqa: PLC0415

    rows: list[dict[str, Any]] = []
    unread: list[str] = []
    held = 0
    for file in sorted(files, key=lambda one: one.size_bytes):
        held += file.size_bytes
        if file.problem is not None or held > _MOST_BYTES:
            why = file.problem or f"left out: the files before it have {_MOST_BYTES >> 30} GiB"
            unread.append(f"{file.path}: {why}")
            continue
        try:
            with contained(file.path):
                found = read_memory_snapshot(Path(file.real_path), shown=file.path)
        except TraceError as error:
            unread.append(str(error))
            continue
        rank = file.path if file.rank is None else str(file.rank)
        for one in found:
            row = to_builtins(one)
            row["oom"] = row.pop("ooms")
            share = one.inactive / one.reserved if one.reserved else None
            rows.append({"rank": rank, "file": file.path, **row, "inactive_share": share})
    rows.sort(key=lambda row: (-_reserved(row), row["file"], row["device"]))
    return rows, tuple(unread)


metric_cal = memory_peaks.document_of
