"""Write a job of many ranks with worker processes; only whole files get their names."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ccltui.demo.demo_card import card
from ccltui.demo.demo_job import CARD_NAME, remove_earlier_job
from ccltui.demo.header import trace_name
from ccltui.demo.scale.large_truth import large_truth
from ccltui.demo.scale.lockstep import simulate_lanes
from ccltui.demo.scale.rank_text import LaneText
from ccltui.demo.spec import Spec
from ccltui.demo.topology import lay_out

PART: Final = ".part"
"""Suffix of a file that is being written."""

Report = Callable[[int, int], None]
"""Called with the number of written files and of all."""

_job: tuple[Path, list[LaneText]] | None = None  # of a worker: copied from its parent by fork


def write_large(
    directory: Path,
    spec: Spec,
    *,
    answer: Path | None = None,
    workers: int = 1,
    report: Report = lambda done, total: None,
) -> dict[str, Any]:
    """Write the card and one file per rank; the bytes do not depend on the number of workers.

    Args:
        directory: Created if necessary; an earlier demo job in it is replaced.
        spec: The job, in the profiler's own layout.
        answer: Where the known answer goes, as JSON, outside the directory.
        workers: Processes.
        report: Receiver of progress.

    Returns:
        The known answer.

    Raises:
        FileExistsError: The directory contains other files.
        OSError: A file cannot be written.
        ValueError: The spec has what only small jobs can have.
    """
    _check(spec)
    topology = lay_out(spec)
    lanes = simulate_lanes(spec, topology)
    truth = large_truth(spec, topology, lanes)
    texts = [LaneText(spec, topology, lane) for lane in lanes]
    remove_earlier_job(directory)
    (directory / CARD_NAME).write_text(card(spec), encoding="utf-8")
    if answer is not None:
        answer.write_text(json.dumps(truth, indent=2) + "\n", encoding="utf-8")
    places = [
        (number, place) for number, lane in enumerate(lanes) for place in range(len(lane.ranks))
    ]
    places.sort(key=lambda one: int(lanes[one[0]].ranks[one[1]]))
    try:
        with _writer(directory, texts, min(workers, len(places))) as written:
            for done, _ in enumerate(written(places), start=1):
                report(done, len(places))
    finally:
        for path in directory.glob(f"*{PART}"):
            path.unlink(missing_ok=True)
    return truth


def _check(spec: Spec) -> None:
    for name in ("with_python", "late_starts", "cuts", "compress"):
        if getattr(spec, name):
            raise ValueError(f"{name} is not supported for jobs of many ranks")
    if spec.layout != "native":
        raise ValueError(f"layout {spec.layout} is not supported for jobs of many ranks")


Written = Callable[[list[tuple[int, int]]], Iterator[None]]


@contextmanager
def _writer(directory: Path, texts: list[LaneText], workers: int) -> Iterator[Written]:
    """What writes ranks, here or in processes that end with the context."""
    global _job  # noqa: PLW0603  (what a forked process copies)
    _job = directory, texts
    try:
        if workers <= 1 or "fork" not in multiprocessing.get_all_start_methods():
            yield lambda places: map(_write, places)
            return
        # The times of all ranks lie in memory once; a process that is spawned would need a copy.
        with multiprocessing.get_context("fork").Pool(workers, _leave_signals) as pool:
            yield lambda places: pool.imap_unordered(_write, places, chunksize=2)
    finally:
        _job = None


def _leave_signals() -> None:
    """Leave ctrl+c to the parent process, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _write(place: tuple[int, int]) -> None:
    assert _job is not None
    directory, texts = _job
    lane = texts[place[0]]
    path = directory / trace_name(int(lane.lane.ranks[place[1]]))
    partial = path.with_name(path.name + PART)
    with partial.open("wb") as file:
        for piece in lane.pieces(place[1]):
            file.write(piece.encode("ascii"))
    partial.replace(path)
