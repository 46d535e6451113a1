"""Planted jobs: built in memory, or written as traces with the known answer beside them.

What ranks have recorded on the event graph becomes the records of the demo, and the same event
writer names them. A damaged recording lacks what late windows, early ends and dropped records lose.
"""

from __future__ import annotations

import gc
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import orjson
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ccltui.demo import simulate
from ccltui.demo.kineto_writer import compact_file, header, trace_name
from ccltui.demo.planted.job_spec import (
    ALL_STAGES,
    DEVICE_ONLY,
    VERDICT_OF,
    Damage,
    Fault,
    JobSpec,
    Level,
    Verdict,
)
from ccltui.demo.planted.tape import Call, RankOp, Simulation, Tape
from ccltui.demo.planted.training_steps import FIRST_STEP, run_job, step_time_ns, step_times_ns
from ccltui.demo.rank_events import Event, RankEvents
from ccltui.demo.simulate import Activity, HostRange, Schedule
from ccltui.demo.spec import DemoGroup, Dimension, Spec, Topology

MATERIAL = 0.01
"""Share of the step below which a fault is not worth a verdict."""


class FaultTruth(Struct, frozen=True):
    """One fault and its cost.

    Attributes:
        verdict: Its class.
        cause: The kind of fault as planted.
        ranks: Culprits; for a pair or group all its members, () if it is nobody.
        stage: Of a heavy stage.
        host: Name of the host, where all its ranks are slow.
        pair: Both ranks of a slow pair of a pipeline.
        group: Members of a slow group.
        steps: As numbered in ``ProfilerStep#N``; None for all.
        factor: As planted.
        cost_ms: Step time less the step time of the same draws without this fault, per step.
        removed_ms: The same where the work is taken away instead of shared out (heavy stages).
        shared_ms: The same where the work is shared out over stages, for heavy stages and what
            cannot be told from them; None for all else.
        also_right: Other classes that describe it as well, where the layout leaves no difference.
        step_costs_ms: The same as ``cost_ms`` for each step.
    """

    verdict: Verdict
    cause: str
    ranks: tuple[int, ...]
    stage: int | None
    host: str | None
    pair: tuple[int, ...] | None
    group: tuple[int, ...] | None
    steps: tuple[int, ...] | None
    factor: float
    cost_ms: float
    removed_ms: float
    shared_ms: float | None = None
    also_right: tuple[str, ...] = ()
    step_costs_ms: tuple[float, ...] = ()


class PlantedTruth(Struct, frozen=True):
    """Known answer of a job.

    Attributes:
        verdict: Class of the most expensive fault; ``no_straggler`` if none costs 1 % of the step.
        steps: Steps of the job.
        step_ms: Mean step.
        clean_step_ms: The same without faults.
        host_ms: What waiting for hosts costs without faults, per step.
        jitter_ms: What random variation costs without faults, per step.
        faults: In order of their cost, the most expensive first.
        ranks: Ranks of the job.
        recorded: Ranks with a file.
        damage: What the files lack, in words.
    """

    verdict: Verdict
    steps: int
    step_ms: float
    clean_step_ms: float
    host_ms: float
    jitter_ms: float
    faults: tuple[FaultTruth, ...]
    ranks: tuple[int, ...]
    recorded: tuple[int, ...]
    damage: tuple[str, ...]

    @property
    def step_ids(self) -> range:
        """Steps as numbered in ``ProfilerStep#N``."""
        return range(FIRST_STEP, FIRST_STEP + self.steps)

    @property
    def cost_ms(self) -> float:
        """Cost of the most expensive fault per step."""
        return self.faults[0].cost_ms if self.faults else 0.0

    @property
    def cost_share(self) -> float:
        """The same as a share of the step."""
        return self.cost_ms / self.step_ms

    def document(self) -> dict[str, Any]:
        """As plain values."""
        document: dict[str, Any] = to_builtins(self)
        return document | {"cost_ms": self.cost_ms, "cost_share": self.cost_share}


class StepTimes(Struct, frozen=True):
    """Steps of a simulated job: their mean time, and the time of each."""

    mean_ns: float
    each_ns: tuple[int, ...]

    @classmethod
    def of(cls, job: Simulation) -> Self:
        """Measure a job."""
        return cls(step_time_ns(job), tuple(step_times_ns(job)))


@lru_cache(maxsize=1024)
def _simulated(spec: JobSpec) -> StepTimes:
    """Simulate a job: the same one without a fault stands behind many with a fault each."""
    return StepTimes.of(run_job(spec)[0])


def known_truth(spec: JobSpec, times: StepTimes) -> PlantedTruth:
    """Answer for a job with such steps, by simulating it without its faults."""
    clean = spec.without_faults()
    clean_times = _simulated(clean) if spec.faults else times
    step_ns, clean_ns = times.mean_ns, clean_times.mean_ns
    free_ns = _simulated(replace(clean, free_hosts=True)).mean_ns
    even_ns = _simulated(replace(clean, jitter=0.0, expert_jitter=0.0)).mean_ns
    faults = [_fault(spec, fault, times, clean_times) for fault in spec.faults]
    faults.sort(key=lambda fault: -fault.cost_ms)
    material = bool(faults) and faults[0].cost_ms * 1e6 >= MATERIAL * step_ns
    verdict: Verdict = faults[0].verdict if material else "no_straggler"
    return PlantedTruth(
        verdict,
        spec.steps,
        step_ns / 1e6,
        clean_ns / 1e6,
        (clean_ns - free_ns) / 1e6,
        max(0.0, clean_ns - even_ns) / 1e6,
        tuple(faults),
        tuple(range(spec.world_size)),
        _recorded(spec),
        tuple(f"{item.kind} of rank {item.rank}" for item in spec.damage),
    )


def _recorded(spec: JobSpec) -> tuple[int, ...]:
    missing = {item.rank for item in spec.damage if item.kind == "missing"}
    return tuple(rank for rank in range(spec.world_size) if rank not in missing)


def _fault(spec: JobSpec, fault: Fault, times: StepTimes, clean: StepTimes) -> FaultTruth:
    others = tuple(other for other in spec.faults if other is not fault)
    removed = _simulated(replace(spec, faults=others)) if others else clean
    also_right = _also_right(spec, fault)
    mended, shared_ns = removed, None
    if "heavy_stage" in (fault.kind, *also_right):
        shared = _simulated(replace(spec, faults=(*others, _even(spec, fault))))
        shared_ns = shared.mean_ns
        mended = shared if fault.kind == "heavy_stage" else removed
    costs = zip(times.each_ns, mended.each_ns, strict=True)
    verdict = VERDICT_OF[fault.kind]
    nobody = verdict in ("uneven_microbatches", "random", "no_straggler")
    host = spec.host_name(fault.ranks[0]) if fault.kind == "slow_node" else None
    return FaultTruth(
        verdict,
        fault.kind,
        () if nobody else fault.ranks,
        fault.stage,
        host,
        fault.ranks if fault.kind == "slow_pair" else None,
        fault.ranks if fault.kind == "slow_group" else None,
        None if fault.steps is None else tuple(FIRST_STEP + step for step in fault.steps),
        fault.factor,
        (times.mean_ns - mended.mean_ns) / 1e6,
        (times.mean_ns - removed.mean_ns) / 1e6,
        None if shared_ns is None else (times.mean_ns - shared_ns) / 1e6,
        also_right,
        tuple((one - other) / 1e6 for one, other in costs),
    )


def _even(spec: JobSpec, fault: Fault) -> Fault:
    """The same work, shared out over all stages."""
    if fault.kind == "heavy_stage":
        return replace(fault, stage=ALL_STAGES, factor=1 + (fault.factor - 1) / spec.pp)
    share = len(fault.ranks) / spec.world_size
    return replace(fault, ranks=(), factor=1 + (fault.factor - 1) * share)


def _also_right(spec: JobSpec, fault: Fault) -> tuple[str, ...]:
    """Classes between which the layout or the recording of the job leaves no difference."""
    if fault.kind == "uneven_experts" and (
        spec.exchange == "deepep" or spec.level != "full" or spec.graphs
    ):
        return ("slow_worker",)  # nothing states how many tokens were sent
    if fault.kind == "slow_worker" and spec.pp == spec.world_size:
        return ("heavy_stage",)
    if fault.kind == "heavy_stage" and spec.pp == spec.world_size:
        return ("slow_worker",)
    stage = {rank for rank in range(spec.world_size) if spec.place(rank)[0] == fault.stage}
    hosts = {spec.host_of(rank) for rank in stage}
    if fault.kind == "heavy_stage" and len(hosts) == 1:
        whole = {r for r in range(spec.world_size) if spec.host_of(r) in hosts}
        return ("slow_node",) if whole == stage else ()
    if fault.kind == "slow_node":
        stages = {spec.place(rank)[0] for rank in fault.ranks}
        members = sum(spec.place(rank)[0] in stages for rank in range(spec.world_size))
        if spec.pp > 1 and members == len(fault.ranks):  # of these stages no rank is elsewhere
            return ("heavy_stage",)
    return ()


_OURS = re.compile(r"kineto_trace_\d+\.json")


class PlantedJob(Struct, frozen=True, dict=True):
    """A job in memory: the bytes of each file by name, and the known answer."""

    spec: JobSpec
    files: Mapping[str, bytes]
    times: StepTimes

    @cached_property
    def truth(self) -> PlantedTruth:
        """The known answer, which takes three and more simulations: for who asks only."""
        with _uncollected():
            return known_truth(self.spec, self.times)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no garbage: operations refer to each other, and none is freed before the end."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def build_job(spec: JobSpec) -> PlantedJob:
    """Simulate a job, and write the file of every rank in memory."""
    with _uncollected():
        return _built(spec)


def _built(spec: JobSpec) -> PlantedJob:
    job, tapes = run_job(spec)
    topology, calls = _calls_of(spec, job)
    files = {}
    for rank in _recorded(spec):
        damage = [item for item in spec.damage if item.rank == rank]
        bare = any(item.kind == "names_only" for item in damage) and spec.has_host_rows
        level: Level = "names" if bare else spec.level
        recorder = _recorder(spec, level)
        schedule = _records(recorder, topology, tapes[rank], calls)
        body = RankEvents(schedule, 0, 52_000 + 13 * rank, rank % spec.gpus_per_node, lean=True)
        rows = sorted(_at_level([*body.host, *body.gpu], level), key=_in_file)
        top = header(recorder, topology, rank) | {"host_name": spec.host_name(rank)}
        rows = damaged(rows, damage, spec.seed)
        files[trace_name(rank)] = compact_file(rows, top, clock_of(spec, spec.host_of(rank)))
    return PlantedJob(spec, files, StepTimes.of(job))


def _recorder(spec: JobSpec, level: Level) -> Spec:
    """The job in the terms of the event writer."""
    return Spec.quiet(
        tp=spec.tp,
        pp=spec.pp,
        dp_replicate=spec.dp,
        dp_shard=1,
        layers=spec.pp,
        gpus_per_node=spec.gpus_per_node,
        first_step=FIRST_STEP,
        metadata="full" if level == "full" else "names_only",
        seed=spec.seed,
    )


def _calls_of(spec: JobSpec, job: Simulation) -> tuple[Topology, tuple[simulate.Call, ...]]:
    """Groups and calls of a job by their numbers."""
    groups: dict[tuple[str, tuple[int, ...]], DemoGroup] = {}

    def group_of(label: str, ranks: tuple[int, ...]) -> DemoGroup:
        dimension = cast("Dimension", "dp_replicate" if label == "dp" else label)
        group = DemoGroup(len(groups), dimension, str(len(groups)), ranks)
        return groups.setdefault((label, ranks), group)

    group_of("world", tuple(range(spec.world_size)))
    calls = []
    for call in job.calls.values():
        kind = "_allgather_base" if call.operation == "copy_gather" else call.operation
        made = (call.index, group_of(call.label, call.group), kind, call.ranks)
        size = (call.elements, call.elements)
        calls.append(simulate.Call(*made, *size, "BFloat16", call.transfer_ns, call.step))
    return Topology((), tuple(groups.values()), spec.gpus_per_node), tuple(calls)


_UNNUMBERED = ("batch", "symmetric", "notify_dispatch", "dispatch", "combine")
"""Calls without a sequence number: a group of calls is launched when it ends, in none of them."""
_LAUNCH_NS = 4_500


def _records(
    spec: Spec, topology: Topology, tape: Tape, calls: tuple[simulate.Call, ...]
) -> Schedule:
    """What a rank has recorded, as the event writer takes it."""
    numbers: Counter[tuple[int, bool]] = Counter()
    activities = []
    for op in tape.ops:
        activity = _activity(op)
        if isinstance(op.call, Call):
            call = calls[op.call.index]
            line = (call.group.index, call.is_p2p)
            numbers[line] += op.kind not in _UNNUMBERED
            activity = _of_call(activity, op.call, numbers[line], hidden=tape.spec.hidden_waits)
            if tape.spec.coalesced and call.is_p2p:
                activity = replace(activity, kind="batch")
        activities.append(activity)
    ranges = [
        HostRange(
            tape.rank, span.kind, span.start_ns, span.end_ns, span.step, backward=span.backward
        )
        for span in tape.spans
    ]
    return Schedule(spec, topology, (tuple(activities),), (tuple(ranges),), calls)


def _activity(op: RankOp) -> Activity:
    """An operation; its launch lies inside its operator."""
    copies = op.kind.startswith("copy")
    began_ns = op.launched_ns - op.host_ns // 2
    launch_ns = max(op.launched_ns - _LAUNCH_NS, began_ns)
    launch_end_ns = min(launch_ns + _LAUNCH_NS, op.launched_ns + op.host_ns // 2 - 1_000)
    return Activity(
        op.rank,
        op.kind,
        "comm" if op.call is not None else "mem" if copies else "comp",
        op.stream,
        op.start_ns,
        op.end_ns,
        began_ns,
        op.host_ns,
        launch_ns,
        op.step,
        "backward" if op.backward else "forward",
        size_bytes=20 * (op.end_ns - op.start_ns) if copies else 0,
        launch_dur_ns=launch_end_ns - launch_ns,
        graph=op.graph,
    )


def _of_call(activity: Activity, call: Call, number: int, *, hidden: bool) -> Activity:
    """A member of a call with its sizes; copies and hidden waits start when all members do."""
    size, sent, received = len(call.ranks), call.elements, call.elements
    splits: tuple[tuple[int, ...], ...] = ()
    copies = activity.kind == "copy_gather"
    kind = "_allgather_base" if copies else activity.kind
    start_ns = activity.start_ns
    if copies or (hidden and call.meeting == "all"):
        start_ns = max(member.start_ns for member in call.members.values())
    if kind == "_allgather_base":
        sent = call.elements // size
    elif kind == "_reduce_scatter_base":
        received = call.elements // size
    elif call.splits and kind == "all_to_allv":
        place = call.ranks.index(activity.rank)
        own = tuple(call.splits[rank][place] for rank in call.ranks)
        splits = (call.splits[activity.rank], own)
        sent, received = (64 * sum(one) for one in splits)
    return replace(
        activity,
        kind=kind,
        start_ns=start_ns,
        size_bytes=2 * call.elements // size if copies else 0,
        call=call.index,
        seq=number,
        in_elems=sent,
        out_elems=received,
        copies=size - 1 if copies else 0,
        splits=splits,
    )


def _is_on_device(event: Event) -> bool:
    return event.cat in ("kernel", "gpu_memcpy", "gpu_memset")


def _in_file(event: Event) -> tuple[bool, int, int]:
    """Sort key: host rows first, then by time, outer rows first."""
    return _is_on_device(event), event.start_ns, -event.dur_ns


def _at_level(events: Sequence[Event], level: Level) -> Iterator[Event]:
    """What a recorder of a level keeps of the events."""
    if level in ("full", "no_groups"):
        yield from events
        return
    device_only = level in DEVICE_ONLY
    own = ("device", "context", "stream", "grid", "block")
    for event in events:
        on_device, step = _is_on_device(event), event.name.startswith("ProfilerStep")
        if level == "kernels":
            if event.cat == "kernel":
                yield replace(event, args={key: event.args[key] for key in own})
        elif on_device or (not device_only and (step or event.cat == "cuda_runtime")):
            args = {key: event.args[key] for key in event.args if key != "External id" or step}
            yield replace(event, args=args)


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


def damaged(rows: list[Event], damage: list[Damage], seed: int) -> list[Event]:
    """Rows that remain, in the same order."""
    for item in damage:
        if item.kind == "late":
            rows = _late(rows, item.calls)
        elif item.kind == "early":
            rows = _early(rows, item.calls)
        elif item.kind == "dropped":
            rows = _dropped(rows, item.share, random.Random(f"{seed}/dropped/{item.rank}"))
    return rows


def _calls(rows: list[Event]) -> list[Activity]:
    """Calls of the rank in the order of their launches."""
    sources = [row.source for row in rows if isinstance(row.source, Activity)]
    found = {source.call: source for source in sources if source.call >= 0}
    return sorted(found.values(), key=lambda activity: activity.launch_ns)


def _launch_ns(row: Event) -> int:
    """When the host work for a row began."""
    return row.source.launch_ns if isinstance(row.source, Activity) else row.start_ns


def _late(rows: list[Event], count: int) -> list[Event]:
    """The window begins when ``count`` calls have been launched.

    Device work that starts inside it is in the file, without its launch and metadata if it was
    launched before. A file without calls, as an early end may leave it, stays as it is.
    """
    calls = _calls(rows)
    if not calls:
        return rows
    begin_ns = calls[min(count, len(calls) - 1)].launch_ns - 1
    own = ("device", "context", "stream", "correlation", "grid", "block", "bytes")
    kept = []
    for row in rows:
        if row.start_ns < begin_ns:
            continue
        if _is_on_device(row) and _launch_ns(row) < begin_ns:
            args = {key: value for key, value in row.args.items() if key in own}
            kept.append(replace(row, args=args))
        else:
            kept.append(row)
    return kept


def _early(rows: list[Event], count: int) -> list[Event]:
    """The window ends before the last ``count`` calls start on the device, if there are any."""
    calls = sorted(_calls(rows), key=lambda activity: activity.start_ns)
    if not calls:
        return rows
    last = calls[max(0, len(calls) - count)]
    return [
        row
        for row in rows
        if (row.start_ns < last.start_ns and row.start_ns + row.dur_ns <= last.end_ns)
        and _launch_ns(row) < last.launch_ns
    ]


def _dropped(rows: list[Event], share: float, chance: random.Random) -> list[Event]:
    """Some runs of consecutive device rows are missing."""
    device = [place for place, row in enumerate(rows) if _is_on_device(row)]
    length = max(1, int(share * len(device) / RUNS))
    gone: set[int] = set()
    for _ in range(RUNS):
        first = chance.randrange(max(1, len(device) - length))
        gone.update(device[first : first + length])
    return [row for place, row in enumerate(rows) if place not in gone]


SINCE_NS = 100_000_000_000
"""How long before time 0 recorders of rounded seconds begin to count: 2**-17 s is their step."""
ORIGIN_NS = 600_000_000_000
"""Time 0 of the true clock after the base."""


def clock_of(spec: JobSpec, host: int) -> Callable[[int], int]:
    """Return what gives the time after the base that a host records for a true time.

    That is as its file states it, where the recorder rounds.
    """
    offsets, drifts = spec.clock_offsets_ns, spec.clock_drifts_ppb
    zero_ns = ORIGIN_NS + (offsets[host] if host < len(offsets) else 0)
    drift = drifts[host] if host < len(drifts) else 0

    def exact(true_ns: int) -> int:
        return zero_ns + true_ns + true_ns * drift // 1_000_000_000

    def microseconds(true_ns: int) -> int:
        return exact(true_ns) // 1_000 * 1_000

    def single_precision(true_ns: int) -> int:
        since_ns = exact(true_ns) - ORIGIN_NS + SINCE_NS
        return int(float(np.float32(since_ns / 1e9)) * 1e9) + ORIGIN_NS - SINCE_NS

    return {"us": microseconds, "float32": single_precision}.get(spec.times, exact)
