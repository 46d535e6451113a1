"""Write a job of many ranks with worker processes, and its known answer beside it.

Only whole files get their names.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from ccltui.demo.demo_job import CARD_NAME, card, remove_earlier_job
from ccltui.demo.kineto_writer import trace_name
from ccltui.demo.profiler_view import drift_ppb, offset_ns
from ccltui.demo.scale.rank_text import LaneText
from ccltui.demo.simulate import Lane, simulate_lanes
from ccltui.demo.spec import Spec
from ccltui.demo.topology import Topology, lay_out
from ccltui.demo.truth import delay_sentence, link_sentence
from ccltui.parsers.window import format_ranks

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


def step_ns(lanes: Sequence[Lane], spec: Spec) -> float:
    """Mean time of a step: from the start of the hosts to the end of all work, over the steps."""
    last = max(int(time.max()) for lane in lanes for time in lane.steps[-1].times)
    return last / spec.steps


def large_truth(spec: Spec, topology: Topology, lanes: Sequence[Lane]) -> dict[str, Any]:
    """Answer as plain values; the job is simulated once more without each fault.

    ``cost_ms`` is the mean step less the mean step without this fault.
    """
    mean_ns = step_ns(lanes, spec)
    faults = []
    for alike in _alike(spec):
        rest = tuple(one for one in spec.stragglers if one not in alike)
        links = tuple(one for one in spec.slow_links if one not in alike)
        without = replace(spec, stragglers=rest, slow_links=links)
        clean_ns = step_ns(simulate_lanes(without, topology), without)
        faults.append(_fault(spec, topology, alike) | {"cost_ms": (mean_ns - clean_ns) / 1e6})
    faults.sort(key=lambda fault: -fault["cost_ms"])
    hosts = range(spec.num_hosts)
    names = [topology.host_name(host * spec.gpus_per_node) for host in hosts]
    return {
        "ranks": spec.world_size,
        "nodes": spec.num_hosts,
        "layout": {name: getattr(spec, name) for name in ("pp", "dp_replicate", "dp_shard", "tp")},
        "order": "pp, dp_replicate, dp_shard, tp; tp innermost",
        "steps": spec.steps,
        "micro_batches": spec.micro_batches,
        "tokens_per_step": spec.global_batch * spec.seq_len,
        "step_ms": mean_ns / 1e6,
        "faults": faults,
        "clock_offset_ms": {name: offset_ns(spec, h) / 1e6 for h, name in enumerate(names)},
        "clock_drift_ppm": {name: drift_ppb(spec, h) / 1e3 for h, name in enumerate(names)},
    }


def _alike(spec: Spec) -> list[list[Any]]:
    """Injected faults, those that differ only in the rank together."""
    found: dict[object, list[Any]] = {}
    for one in spec.stragglers:
        found.setdefault((one.cause, one.extra_ns, one.steps), []).append(one)
    return [*found.values(), *([link] for link in spec.slow_links)]


def _fault(spec: Spec, topology: Topology, alike: list[Any]) -> dict[str, Any]:
    first = alike[0]
    ranks = [one.rank for one in alike]
    if not hasattr(first, "cause"):
        group = topology.group_of(first.dimension, first.rank)
        members = list(group.ranks) if group is not None else ranks
        return {"cause": "slow_group", "ranks": members, "text": link_sentence(first)}
    named = format_ranks(frozenset(ranks))
    who = f"rank {named}" if len(ranks) == 1 else f"each of the ranks {named}"
    steps = None if first.steps is None else [spec.first_step + one for one in first.steps]
    text = delay_sentence(spec, first, who)
    hosts = {topology.host_name(rank) for rank in ranks}
    return {
        "cause": first.cause,
        "ranks": ranks,
        "host": hosts.pop() if len(hosts) == 1 else None,
        "extra_ms": first.extra_ns / 1e6,
        "steps": steps,
        "text": text,
    }
