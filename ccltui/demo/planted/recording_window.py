"""What a damaged recording keeps: windows that begin late or end early, dropped records."""

from __future__ import annotations

import random
from dataclasses import replace

from ccltui.demo.planted.event_graph import Op
from ccltui.demo.planted.job_spec import Damage
from ccltui.demo.planted.profiled_rows import Row

RUNS = 3
"""Runs of consecutive device rows that dropped buffers of the profiler leave out."""


def damaged(rows: list[Row], damage: list[Damage], seed: int) -> list[Row]:
    """Rows that remain, in the same order."""
    for item in damage:
        if item.kind == "late":
            rows = _late(rows, item.calls)
        elif item.kind == "early":
            rows = _early(rows, item.calls)
        elif item.kind == "dropped":
            rows = _dropped(rows, item.share, random.Random(f"{seed}/dropped/{item.rank}"))
    return rows


def _calls(rows: list[Row]) -> list[Op]:
    """Calls of the rank in the order of their launches."""
    ops = {id(row.op): row.op for row in rows if row.op is not None and row.op.call is not None}
    return sorted(ops.values(), key=lambda op: op.launched_ns)


def _late(rows: list[Row], count: int) -> list[Row]:
    """The window begins when ``count`` calls have been launched.

    Device work that starts inside it is in the file, without its launch and metadata if it was
    launched before.
    """
    calls = _calls(rows)
    begin_ns = calls[min(count, len(calls) - 1)].launched_ns - 1
    kept = []
    for row in rows:
        if row.start_ns < begin_ns:
            continue
        if row.on_device and row.launched_ns < begin_ns:
            bare = {
                key: value
                for key, value in row.args.items()
                if key in ("device", "context", "stream", "correlation", "grid", "block", "bytes")
            }
            kept.append(replace(row, args=bare))
        else:
            kept.append(row)
    return kept


def _early(rows: list[Row], count: int) -> list[Row]:
    """The window ends before the last ``count`` calls start on the device."""
    calls = sorted(_calls(rows), key=lambda op: op.start_ns)
    last = calls[max(0, len(calls) - count)]
    return [
        row
        for row in rows
        if (row.start_ns < last.start_ns and row.start_ns + row.dur_ns <= last.end_ns)
        and row.launched_ns < last.launched_ns
    ]


def _dropped(rows: list[Row], share: float, chance: random.Random) -> list[Row]:
    """Some runs of consecutive device rows are missing."""
    device = [place for place, row in enumerate(rows) if row.on_device]
    length = max(1, int(share * len(device) / RUNS))
    gone: set[int] = set()
    for _ in range(RUNS):
        first = chance.randrange(max(1, len(device) - length))
        gone.update(device[first : first + length])
    return [row for place, row in enumerate(rows) if place not in gone]
