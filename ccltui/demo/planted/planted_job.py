"""Build a planted job in memory, or write it with its known answer beside it."""

from __future__ import annotations

import gc
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from ccltui.demo.planted.job_spec import JobSpec, Level
from ccltui.demo.planted.planted_truth import PlantedTruth, known_truth
from ccltui.demo.planted.profiled_rows import RankRows, group_name
from ccltui.demo.planted.recording_window import damaged
from ccltui.demo.planted.row_writer import Groups, trace_bytes
from ccltui.demo.planted.run_simulation import run_job

_OURS = re.compile(r"kineto_trace_\d+\.json")


@dataclass(frozen=True, slots=True)
class PlantedJob:
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
