"""Planted jobs: built in memory, or written as traces with the known answer beside them.

A damaged recording lacks what late windows, early ends and dropped records lose.
"""

from __future__ import annotations

import gc
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from msgspec import Struct
from msgspec.structs import replace

from ccltui.demo.planted import profiled_rows
from ccltui.demo.planted.job_spec import Damage, JobSpec, Level
from ccltui.demo.planted.planted_truth import PlantedTruth, known_truth
from ccltui.demo.planted.profiled_rows import RankRows, Row, group_name
from ccltui.demo.planted.tape import RankOp
from ccltui.demo.planted.training_steps import run_job

_OURS = re.compile(r"kineto_trace_\d+\.json")


class PlantedJob(Struct, frozen=True):
    """A job in memory: the bytes of each file by name, and the known answer."""

    spec: JobSpec
    files: Mapping[str, bytes]
    truth: PlantedTruth


def build_job(spec: JobSpec) -> PlantedJob:
    """Simulate a job, and write the file of every rank in memory."""
    collects = gc.isenabled()
    gc.disable()  # operations refer to each other; nothing of them is freed before the end
    try:
        return _built(spec)
    finally:
        if collects:
            gc.enable()


def _built(spec: JobSpec) -> PlantedJob:
    job, tapes = run_job(spec)
    groups: Groups = {("world", tuple(range(spec.world_size))): "0"}
    for call in job.calls.values():
        group_name(call, groups)
    truth = known_truth(spec, job)
    files = {}
    for rank in truth.recorded:
        damage = [item for item in spec.damage if item.rank == rank]
        bare = any(item.kind == "names_only" for item in damage) and spec.has_host_rows
        level: Level = "names" if bare else spec.level
        rows = damaged(RankRows(spec, tapes[rank], level, groups).all(), damage, spec.seed)
        files[f"kineto_trace_{rank}.json"] = trace_bytes(spec, rank, level, rows, groups)
    return PlantedJob(spec, files, truth)


def write_planted(directory: Path, spec: JobSpec, *, answer: Path | None = None) -> PlantedJob:
    """Write the files of a job into a directory, and its known answer into another file.

    Args:
        directory: Created if necessary; files of an earlier job in it are replaced.
        spec: The job.
        answer: Where the known answer goes, as JSON; None: nowhere. It should lie outside the
            directory, so that nothing that reads the traces can find it.

    Raises:
        FileExistsError: The directory contains other files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    present = sorted(directory.iterdir())
    foreign = [path.name for path in present if not _OURS.fullmatch(path.name)]
    if foreign:
        raise FileExistsError(f"{directory} holds {foreign[0]}: choose an empty or a new directory")
    job = build_job(spec)
    for path in present:
        path.unlink()
    for name, data in job.files.items():
        (directory / name).write_bytes(data)
    if answer is not None:
        answer.write_bytes(orjson.dumps(job.truth.document(), option=orjson.OPT_INDENT_2))
    return job


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


def _calls(rows: list[Row]) -> list[RankOp]:
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


BASE_NS = 1_775_078_550_000_000_000
SINCE_NS = 100_000_000_000
"""How long before time 0 recorders of rounded seconds begin to count: 2**-17 s is their step."""
ORIGIN_NS = 600_000_000_000
"""Time 0 of the true clock after the base."""

Groups = dict[tuple[str, tuple[int, ...]], str]


def recorded_ns(spec: JobSpec, host: int, true_ns: int) -> int:
    """Time after the base that a host records for a true time."""
    offsets, drifts = spec.clock_offsets_ns, spec.clock_drifts_ppb
    offset = offsets[host] if host < len(offsets) else 0
    drift = drifts[host] if host < len(drifts) else 0
    return ORIGIN_NS + offset + true_ns + true_ns * drift // 1_000_000_000


def written_ns(spec: JobSpec, time_ns: int) -> int:
    """The same as its file states it, where the recorder rounds."""
    if spec.times == "us":
        return time_ns // 1_000 * 1_000
    if spec.times == "float32":
        since_ns = time_ns - ORIGIN_NS + SINCE_NS
        return int(float(np.float32(since_ns / 1e9)) * 1e9) + ORIGIN_NS - SINCE_NS
    return time_ns


def trace_bytes(spec: JobSpec, rank: int, level: Level, rows: list[Row], groups: Groups) -> bytes:
    """The file of one rank."""
    host = spec.host_of(rank)
    events: list[dict[str, Any]] = []
    for row in rows:
        start_ns, end_ns = (
            written_ns(spec, recorded_ns(spec, host, one))
            for one in (row.start_ns, row.start_ns + row.dur_ns)
        )
        pid, tid = row.place
        events.append(
            {
                "ph": "X",
                "cat": row.category,
                "name": row.name,
                "pid": pid,
                "tid": tid,
                "ts": start_ns / 1_000,
                "dur": (end_ns - start_ns) / 1_000,
                "args": row.args,
            }
        )
    document = {**_header(spec, rank, level, groups), "traceEvents": events}
    return orjson.dumps(document)


def _header(spec: JobSpec, rank: int, level: Level, groups: Groups) -> dict[str, Any]:
    devices = min(spec.gpus_per_node, spec.world_size)
    info: dict[str, Any] = {"backend": "nccl", "rank": rank, "world_size": spec.world_size}
    if level == "full":
        info["pg_count"] = len(groups)
        info["pg_config"] = [
            {
                "pg_name": name,
                "pg_desc": profiled_rows.DESCRIPTIONS[label],
                "backend_config": "cuda:nccl",
                "pg_size": len(ranks),
                "ranks": list(ranks),
            }
            for (label, ranks), name in groups.items()
            if rank in ranks
        ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": device,
                "name": "NVIDIA H100 80GB HBM3",
                "totalGlobalMem": 85_018_279_936,
                "computeMajor": 9,
                "computeMinor": 0,
                "numSms": 132,
            }
            for device in range(devices)
        ],
        "distributedInfo": info,
        "record_shapes": 0,
        "host_name": spec.host_name(rank),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
    }
