"""Jobs of many ranks: layout, length and faults; files from worker processes; the known answer.

The files are byte for byte those that ``ccltui.demo.build`` makes. Only whole files get their
names.

The event writer of small jobs writes a step in which each number that differs between ranks or
steps is a mark: its place among the numbers of a rank and step, far above all other numbers. Names
and members of groups are replaced before it is written. Written event by event, a rank takes ten
times as long.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.demo.demo_job import CARD_NAME, card, remove_earlier_job
from ccltui.demo.kineto_writer import (
    NATIVE_BETWEEN,
    base_ns,
    drift_ppb,
    header,
    native_ends,
    native_events,
    offset_ns,
    origin_ns,
    trace_name,
)
from ccltui.demo.program import Communicate, Work
from ccltui.demo.rank_events import (
    FIRST_CORRELATION,
    LEAD_NS,
    TAIL_NS,
    Event,
    RankEvents,
    device_steps,
    list_text,
    pid_of,
    row_names,
    window,
)
from ccltui.demo.simulate import (
    FIRST_SEQ,
    Call,
    Entry,
    Lane,
    Line,
    Schedule,
    StepLog,
    records,
    simulate_lanes,
)
from ccltui.demo.spec import (
    Cause,
    DemoGroup,
    Dimension,
    SlowLink,
    Spec,
    Straggler,
    Topology,
    lay_out,
)
from ccltui.demo.truth import delay_sentence, link_sentence
from ccltui.parsers.array_types import I64
from ccltui.parsers.ingest.rank_worker import end_with_parent
from ccltui.parsers.ingest.worker_pool import Executor
from ccltui.parsers.window import format_ranks

# Marks are 1 ms apart, because events inside others begin some microseconds after them, and ids
# count up from a mark by less than half of that, or down by one.
_NUMBER: Final = 7_000_000_500_000
_OF_RANK: Final = 6_000_000_500_000
_DURATION: Final = 4_000_000_000_000  # between a time and the next one
_APART: Final = 1_000_000
_PID, _DEVICE, _RANK = (_OF_RANK + place * _APART for place in range(3))
_MARK: Final = re.compile(
    r'([47]\d{9})\.(\d{3})|\b([67]\d{12})\b|"@([a-z_]+(?::\d+)?)@"'
    r'|(?<="bytes": )(\d+), "memory bandwidth \(GB/s\)": ([^\n,]+)'
)


class _Fill(Struct, frozen=True):
    """Where the numbers of one kind go: places in the values, what is taken, what is added."""

    into: I64
    what: I64
    add: I64


class Part:
    """Host or device rows of a step: texts, what is the rank's own, and formats for numbers."""

    def __init__(self, text: str) -> None:
        self.pieces, end = [""], 0
        self.bandwidths: list[tuple[int, int, int]] = []
        self.count = 0
        rows: dict[str, list[tuple[int, int, int]]] = {"start": [], "dur": [], "number": []}
        for found in _MARK.finditer(text):
            self.pieces[-1] += text[end : found.start()].replace("%", "%%")
            end = found.end()
            whole_us, rest_ns, number, token, size, rate = found.groups()
            if whole_us:
                kind = "dur" if whole_us[0] == "4" else "start"
                zero = _DURATION if kind == "dur" else _NUMBER
                place, add = divmod(int(whole_us + rest_ns) - zero, _APART)
                rows[kind].append((self.count, place, add))
                self.pieces[-1] += "%d.%03d"
                self.count += 1
            elif size:
                place = round((int(size) / float(rate) - _DURATION) / _APART)
                self.bandwidths.append((self.count, place, int(size)))
                self.pieces[-1] += f'{size}, "memory bandwidth (GB/s)": %s'
            elif token or number[0] == "6":
                self.pieces += [token or number, ""]
                continue
            else:
                place = round((int(number) - _NUMBER) / _APART)
                rows["number"].append((self.count, place, int(number) - _NUMBER - place * _APART))
                self.pieces[-1] += "%d"
            self.count += 1
        self.pieces[-1] += text[end:].replace("%", "%%")
        self._fills = {
            kind: _Fill(*np.array(found, np.int64).reshape(-1, 3).T) for kind, found in rows.items()
        }

    def of_rank(self, names: Mapping[str, str]) -> str:
        """The text with what is the rank's own; formats remain."""
        pieces = self.pieces.copy()
        for place in range(1, len(pieces), 2):
            token = pieces[place]
            pieces[place] = names[token] if token in names else _own_number(token, names)
        return "".join(pieces)

    def values(self, numbers: I64) -> tuple[int | float, ...]:
        """What the formats are filled with."""
        found = np.empty(self.count, np.int64)
        start, dur, number = (self._fills[kind] for kind in ("start", "dur", "number"))
        for fill, ns in (
            (start, numbers[start.what] + start.add),
            (dur, numbers[dur.what + 1] - numbers[dur.what]),
        ):
            found[fill.into], found[fill.into + 1] = ns // 1_000, ns % 1_000
        found[number.into] = numbers[number.what] + number.add
        values: list[int | float] = [*found.tolist()]
        for place, what, size in self.bandwidths:
            values[place] = size / max(int(numbers[what + 1] - numbers[what]), 1)
        return tuple(values)


def _own_number(token: str, names: Mapping[str, str]) -> str:
    """A number of the rank itself: its mark and what is added."""
    place = round((int(token) - _OF_RANK) / _APART)
    mark = _OF_RANK + place * _APART
    return str(int(names[str(mark)]) + int(token) - mark)


class StepTemplate(Struct, frozen=True):
    """Both parts of a step.

    Attributes:
        host, device: Rows of the host and of the device.
        lines: Lines of calls in the order of their marks.
        externals, correlations: Ids that the step takes.
        main: Places in the times of the first start and the last end on the main stream.
        streams: Streams of the step.
    """

    host: Part
    device: Part
    lines: list[Line]
    externals: int
    correlations: int
    main: tuple[int, int]
    streams: frozenset[int]


def signature(log: StepLog) -> tuple[object, ...]:
    """What the text of a step depends on besides numbers."""
    return tuple(
        (entry.kind, entry.stream, entry.line, entry.number, _of_item(entry))
        for entry in log.entries
    )


def _of_item(entry: Entry) -> object:
    item = entry.item
    if isinstance(item, Communicate):
        return item.operation, item.in_elems, item.out_elems, item.phase, item.peer
    return item


def make_template(spec: Spec, topology: Topology, rank: int, log: StepLog) -> StepTemplate:
    """Write the text of a step, with marks, from the log of a rank that is one of its lane."""
    lines = list(dict.fromkeys(entry.line for entry in log.entries if entry.line[0]))
    items = [entry for entry in log.entries if isinstance(entry.item, Communicate)]
    index = {(entry.line, entry.number): place for place, entry in enumerate(items)}
    calls = tuple(_call(place, entry.item, rank) for place, entry in enumerate(items))
    times: list[int] = []
    main: list[int] = []
    for entry in log.entries:
        if entry.kind == "work":
            main.append(len(times))
        times += [_NUMBER + (len(times) + one) * _APART for one in range(entry.times)]
        times[-1] = times[-2] + _DURATION + (len(times) - 2) * _APART
    external, correlation, step, *seqs = (
        _NUMBER + (len(times) + one) * _APART for one in range(3 + len(lines))
    )
    first = dict(zip(lines, seqs, strict=True))
    activities, ranges = records(log, times, rank=_RANK, step=0, first_seqs=first, calls=index)
    drawn = replace(spec, first_step=step)
    schedule = Schedule(drawn, topology, (tuple(activities),), (tuple(ranges),), calls)
    body = RankEvents(schedule, 0, _PID, _DEVICE, external=external, correlation=correlation)
    return StepTemplate(
        Part(native_events([_with_tokens(event) for event in body.host], 0)),
        Part(native_events([_with_tokens(event) for event in body.gpu], 0)),
        lines,
        body.external - external,
        body.correlation - correlation,
        (main[0] + 2, main[-1] + 3),
        frozenset(entry.stream for entry in log.entries if entry.item is not None),
    )


def _call(number: int, item: Work | Communicate | None, rank: int) -> Call:
    """The call of a rank, with places in the group instead of ranks."""
    assert isinstance(item, Communicate)
    group = item.group
    members = tuple(range(len(group.ranks)))
    marked = DemoGroup(group.index, group.dimension, f"@{group.dimension}@", members)
    sizes = (item.in_elems, item.out_elems)
    if item.operation == "all_to_allv":
        sizes = (min(sizes),) * 2  # of a member that is sent no more than the others
    if item.peer >= 0:
        pair = (group.ranks.index(rank), group.ranks.index(item.peer))
        members = pair if item.operation == "send" else pair[::-1]
    operation = "send" if item.operation == "recv" else item.operation
    return Call(number, marked, operation, members, *sizes, item.dtype, 0, 0)


def _with_tokens(event: Event) -> Event:
    """The event with tokens for the name and the members of its group."""
    args: dict[str, Any] = event.args
    if "Process Group Name" not in args:
        return event
    dimension = args["Process Group Name"].strip("@")
    tokens = {
        "Process Group Name": f"@{dimension}_name@",
        "Global rank start": f"@{dimension}_start@",
        "Global rank stride": f"@{dimension}_stride@",
        "Comms Id": f"@{dimension}_comms@",
        "Src Rank": f"@pp_member:{args.get('Src Rank')}@",
        "Dst Rank": f"@pp_member:{args.get('Dst Rank')}@",
    }
    if args["Process Group Ranks"] != "[]":
        tokens["Process Group Ranks"] = f"@{dimension}_ranks@"
    return replace(event, args=args | {key: tokens[key] for key in tokens if key in args})


def names_of(topology: Topology, rank: int, pid: int, device: int) -> dict[str, str]:
    """JSON text of the tokens of a rank, and its own numbers by their marks."""
    names = {str(_PID): str(pid), str(_DEVICE): str(device), str(_RANK): str(rank)}
    for group in topology.groups_of(rank):
        key = group.dimension
        names |= {
            f"{key}_name": f'"{group.name}"',
            f"{key}_ranks": f'"{list_text(group.ranks)}"',
            f"{key}_start": str(group.ranks[0]),
            f"{key}_stride": str(group.ranks[1] - group.ranks[0]),
            f"{key}_comms": str(group.comms_id),
        }
        if key == "pp":
            names |= {f"pp_member:{n}": str(member) for n, member in enumerate(group.ranks)}
    return names


class _Step(Struct):
    """A step of a lane: its template, its times, one row a rank, and its first sequence numbers."""

    template: StepTemplate
    times: I64
    seqs: list[int]


class LaneText(Struct):
    """Texts of the ranks of a lane.

    Attributes:
        spec, topology: The job.
        lane: The lane; its logs are no longer needed afterwards.
    """

    spec: Spec
    topology: Topology
    lane: Lane
    _steps: list[_Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        templates: dict[tuple[object, ...], StepTemplate] = {}
        rank = int(self.lane.ranks[0])
        for log in self.lane.steps:
            key = signature(log)
            if key not in templates:
                templates[key] = make_template(self.spec, self.topology, rank, log)
            template = templates[key]
            times = np.ascontiguousarray(np.array(log.times, np.int64).T)
            log.times = []
            seqs = [FIRST_SEQ + log.first_seqs.get(line, 0) for line in template.lines]
            self._steps.append(_Step(template, times, seqs))

    def pieces(self, place: int) -> Iterator[str]:
        """The text of the rank at a place of the lane, in pieces."""
        spec, topology = self.spec, self.topology
        rank = int(self.lane.ranks[place])
        pid, device = pid_of(rank), topology.device_of(rank)
        times = [self._on_clock(step.times[place], rank) for step in self._steps]
        first_ns = int(min(one.min() for one in times)) - LEAD_NS
        last_ns = int(max(one.max() for one in times)) + TAIL_NS
        head, tail = native_ends(header(spec, topology, rank), trace_name(rank))
        streams = sorted({stream for step in self._steps for stream in step.template.streams})
        names = names_of(topology, rank, pid, device)
        yield head
        yield native_events(list(row_names(pid, device, streams, first_ns)), 0)
        numbers = self._numbers(times)
        for part in ("host", "device"):
            texts: dict[int, str] = {}
            for step, own in zip(self._steps, numbers, strict=True):
                rows: Part = getattr(step.template, part)
                if id(rows) not in texts:
                    texts[id(rows)] = NATIVE_BETWEEN + rows.of_rank(names)
                yield texts[id(rows)] % rows.values(own)
        spans = {
            number: (int(times[number][begin]), int(times[number][end]))
            for number, (begin, end) in enumerate(step.template.main for step in self._steps)
        }
        yield NATIVE_BETWEEN
        yield native_events(
            [*device_steps(device, spans, spec.first_step), *window(first_ns, last_ns)], 0
        )
        yield tail

    def _on_clock(self, true_ns: I64, rank: int) -> I64:
        """Times on the clock of the host, less the base of the file."""
        spec, host = self.spec, self.topology.host_of(rank)
        zero_ns = origin_ns(spec) + offset_ns(spec, host) - base_ns(spec)
        times: I64 = zero_ns + true_ns + true_ns * drift_ppb(spec, host) // 1_000_000_000
        return times

    def _numbers(self, times: list[I64]) -> list[I64]:
        """Numbers of each step of a rank in the order of their marks."""
        external, correlation = 0, FIRST_CORRELATION
        found = []
        for number, (step, own) in enumerate(zip(self._steps, times, strict=True)):
            ids = [external, correlation, self.spec.first_step + number, *step.seqs]
            found.append(np.concatenate([own, np.array(ids, np.int64)]))
            external += step.template.externals
            correlation += step.template.correlations
        return found


Family = Literal["dp", "tp", "pp", "fsdp", "moe"]
MOST_RANKS: Final = 100_000
DEFAULT_MEGABYTES: Final = 2.0
_CAUSES: Final[dict[str, Cause]] = {
    "slow_worker": "compute",
    "occasional_worker": "compute",
    "slow_node": "compute",
    "heavy_stage": "compute",
    "uneven_experts": "tokens",
    "garbage_collection": "garbage_collection",
    "data_loading": "data_loading",
    "checkpoint": "checkpoint",
    "allocation": "allocation",
    "synchronisation": "synchronisation",
}
FAULTS: Final = (*_CAUSES, "slow_group")
"""Faults that jobs of many ranks can have."""
_PER_NODE: Final = 8
_COMPUTE_OF_STEP: Final = (0.1, 0.4)
"""Delay of a fault as a share of the compute time of a step."""


def large_spec(
    ranks: int,
    *,
    megabytes: float = DEFAULT_MEGABYTES,
    seed: int = 0,
    family: Family | None = None,
    faults: tuple[str, ...] = ("any",),
    names_only: bool = False,
) -> Spec:
    """Return a job of a number of ranks.

    Args:
        ranks: Number of ranks.
        megabytes: Text of a rank, 1e6 bytes; the number of steps is chosen for it, at least 2.
        seed: Seed of the faults, clocks and variation.
        family: Kind of parallelism; None: all degrees that divide the number of ranks.
        faults: Kinds of faults, ``any`` for a drawn one.
        names_only: Whether events of collectives have no arguments.

    Raises:
        ValueError: No such job can be made.
    """
    if not 2 <= ranks <= MOST_RANKS:
        raise ValueError(f"a job of many ranks has 2 to {MOST_RANKS:,} ranks, not {ranks}")
    rng = random.Random(f"large/{seed}")
    shape = _shape(ranks, family)
    hosts = -(-ranks // _PER_NODE)
    spec = Spec.quiet(
        **shape,
        gpus_per_node=_PER_NODE,
        layers=shape["pp"],
        micro_batches=8 if megabytes >= 1 else 4,
        steps=2,
        jitter_ns=1_500,
        seed=seed,
        metadata="names_only" if names_only else "full",
        clock_offsets_ns=tuple(rng.randint(-5_000_000, 5_000_000) for _ in range(hosts)),
        clock_drifts_ppb=tuple(rng.randint(-20_000, 20_000) for _ in range(hosts)),
        compress=False,
    )
    spec = replace(spec, steps=_steps_of(spec, megabytes * 1e6))
    for kind in faults:
        drawn = rng.choice([one for one in FAULTS if _fits(spec, one)]) if kind == "any" else kind
        spec = _with_fault(spec, drawn, rng)
    return spec


def _shape(ranks: int, family: Family | None) -> dict[str, Any]:
    def degree(left: int, most: int) -> int:
        return max(one for one in range(1, most + 1) if left % one == 0)

    tp = degree(ranks, _PER_NODE) if family in (None, "tp") else 1
    pp = degree(ranks // tp, 4) if family in (None, "pp") else 1
    left = ranks // (tp * pp)
    if family == "dp":
        return {"tp": 1, "pp": 1, "dp_replicate": left, "dp_shard": 1}
    replicas = left // degree(left, 64) if family is None else 1
    shape = {"tp": tp, "pp": pp, "dp_replicate": replicas, "dp_shard": left // replicas}
    if family == "moe":
        shape["experts"] = True
    if family in ("tp", "pp") and shape[family] == 1:
        raise ValueError(f"{ranks} ranks do not divide into groups of family {family}")
    return shape


def _steps_of(spec: Spec, size: float) -> int:
    """Steps whose text has a size: the length grows by the same for each step."""
    topology = lay_out(spec)
    lengths = []
    for steps in (2, 3):
        longer = replace(spec, steps=steps)
        text = LaneText(longer, topology, simulate_lanes(longer, topology)[0])
        lengths.append(sum(map(len, text.pieces(0))))
    return max(2, round(2 + (size - lengths[0]) / (lengths[1] - lengths[0])))


def _fits(spec: Spec, kind: str) -> bool:
    several_groups = (spec.tp > 1) + (spec.pp > 1) + (spec.dp_shard > 1) > 1
    return {
        "slow_node": spec.world_size >= 2 * spec.gpus_per_node,
        "heavy_stage": spec.pp > 1,
        "uneven_experts": spec.experts,
        "slow_group": several_groups and spec.tp * spec.dp_shard > 1,
    }.get(kind, kind in FAULTS)


def _with_fault(spec: Spec, kind: str, rng: random.Random) -> Spec:
    if kind not in FAULTS:
        raise ValueError(
            f"fault {kind} is not made with {spec.world_size} ranks; choose from any, "
            + ", ".join(FAULTS)
        )
    if not _fits(spec, kind):
        raise ValueError(f"a job of this layout cannot have the fault {kind}")
    rank = rng.randrange(spec.world_size)
    extra_ns = int(rng.uniform(*_COMPUTE_OF_STEP) * _compute_ns(spec))
    if kind == "slow_group":
        dimension: Dimension = "tp" if spec.tp > 1 else "dp_shard"
        count = 4 * spec.micro_batches * spec.layers_per_stage
        link = SlowLink(dimension, rank, max(100_000, extra_ns // count))
        return replace(spec, slow_links=(*spec.slow_links, link))
    steps = None
    if kind in ("occasional_worker", "checkpoint"):
        steps = tuple(sorted(rng.sample(range(1, spec.steps), max(1, spec.steps // 4))))
        extra_ns *= 3
    ranks = [rank]
    if kind == "slow_node":
        node = rank // spec.gpus_per_node
        ranks = [r for r in range(spec.world_size) if r // spec.gpus_per_node == node]
    elif kind == "heavy_stage":
        size = spec.world_size // spec.pp
        ranks = list(range(spec.world_size - size, spec.world_size))
    delays = tuple(Straggler(one, _CAUSES[kind], extra_ns, steps) for one in ranks)
    return replace(spec, stragglers=(*spec.stragglers, *delays))


def _compute_ns(spec: Spec) -> int:
    """Compute time of a rank in a step: a backward pass costs twice a forward pass."""
    forward = 4 * spec.gemm_ns + spec.attention_ns + 2 * spec.elementwise_ns
    return 3 * forward * spec.micro_batches * spec.layers_per_stage


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
        # Not a Pool of multiprocessing: its end kills processes, also one that has just told of a
        # file and still holds the lock of the results, for which the pool then waits for ever.
        context = multiprocessing.get_context("fork")
        pool = Executor(workers, mp_context=context, initializer=_start_writer)
        try:
            yield lambda places: _written(pool, places)
        finally:
            pool.shutdown(cancel_futures=True)
    finally:
        _job = None


def _written(pool: Executor, places: list[tuple[int, int]]) -> Iterator[None]:
    for future in as_completed([pool.submit(_write, place) for place in places]):
        yield future.result()


def _start_writer() -> None:
    """Leave ctrl+c to the parent process, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()


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
