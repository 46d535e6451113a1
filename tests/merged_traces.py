"""Small Kineto traces of ranks of a job, and files that programs merge them into."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Rename = Callable[[Event, int], None]
WORLD = 4
BASE_NS = 1_735_689_600_000_000_000


def rank_events(rank: int, *, steps: int = 3, members: Iterable[int] = range(WORLD)) -> list[Event]:
    """Events of one rank: each step a product and an all-reduce; each rank takes its own time."""
    host, ranks = 4000 + rank, list(members)
    events: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python"}}
        for pid in (host, rank)
    ]
    for step in range(steps):
        start = 1000.0 + 10_000 * step
        events.append(
            _event("user_annotation", f"ProfilerStep#{step + 5}", host, start, 9000.0, tid=host)
        )
        for number, name in enumerate(("gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL")):
            launch = 100 + 2 * step + number
            at = start + 100 + 4000 * number
            args: Event = {"External id": launch, "correlation": launch}
            if number:
                call = {
                    "External id": launch,
                    "Collective name": "allreduce",
                    "In msg nelems": 1024,
                    "Out msg nelems": 1024,
                    "Group size": len(ranks),
                    "dtype": "BFloat16",
                    "Process Group Name": "0",
                    "Process Group Ranks": str(ranks),
                    "Seq": step,
                }
                events.append(_event("cpu_op", "record_param_comms", host, at, 40.0, call))
            events.append(_event("cuda_runtime", "cudaLaunchKernel", host, at + 10, 5.0, args))
            device = {**args, "device": rank, "stream": 7 + number}
            length = 3000.0 + rank if number == 0 else 4600.0 - 10 * rank
            events.append(_event("kernel", name, rank, at + 30, length, device, 7 + number))
    return events


def _event(
    category: str,
    name: str,
    pid: int,
    at: float,
    length: float,
    args: Event | None = None,
    tid: int | None = None,
) -> Event:
    event: Event = {"ph": "X", "cat": category, "name": name, "pid": pid, "ts": at, "dur": length}
    return event | {"tid": pid if tid is None else tid, "args": args or {}}


def document(events: list[Event], rank: int | None = None) -> Event:
    """Return a trace of events, with the rank where one is given."""
    head: Event = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": WORLD}
    return head | {"traceEvents": events}


def write_ranks(folder: Path, ranks: Iterable[int] = range(WORLD)) -> None:
    """Write the files of some ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in ranks:
        text = json.dumps(document(rank_events(rank), rank), indent=1)
        (folder / f"rank{rank}_trace.json").write_text(text)


def merged(rename: Rename, ranks: Iterable[int] = range(WORLD), rank: int | None = None) -> Event:
    """Return the merge of ranks, each event changed by ``rename``."""
    events = []
    for number in ranks:
        for event in copy.deepcopy(rank_events(number)):
            rename(event, number)
            events.append(event)
    return document(events, rank)


def renamed(new_pid: Callable[[int, int], str | int]) -> Rename:
    """Return a function that gives events a new pid, from the old one and the rank."""

    def rename(event: Event, rank: int) -> None:
        event["pid"] = new_pid(event["pid"], rank)

    return rename


def with_offset(event: Event, rank: int) -> None:
    """Add to process numbers, as programs that merge do."""
    event["pid"] += 100_000 * rank


def write(path: Path, content: Event | list[Event]) -> Path:
    """Write a trace as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path
