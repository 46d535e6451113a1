"""Known values of a job, in nanoseconds and bytes, and its faults in sentences.

The values are computed from the simulated schedule by brute force, independently of the code that
measures traces, so that tests compare two implementations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ccltui.demo import profiler_names
from ccltui.demo.kineto_writer import offset_ns
from ccltui.demo.program import BYTES_PER_ELEMENT
from ccltui.demo.simulate import Activity, Call, HostRange, Schedule
from ccltui.demo.spec import Dimension, SlowLink, Spec, Straggler, Topology
from ccltui.parsers.numbers import duration
from ccltui.parsers.window import ranges_text


def fault_sentences(spec: Spec, topology: Topology) -> tuple[str, ...]:
    """One sentence per injected fault of the job."""
    hosts = [topology.host_name(host * spec.gpus_per_node) for host in range(spec.num_hosts)]
    return (
        *(delay_sentence(spec, item, f"rank {item.rank}") for item in spec.stragglers),
        *(link_sentence(link) for link in spec.slow_links),
        *(
            f"the clock of {name} is {abs(offset) / 1e6:g} ms {'ahead' if offset > 0 else 'behind'}"
            for name, offset in zip(hosts, spec.clock_offsets_ns, strict=False)
            if offset
        ),
        *(
            f"the clock of {name} gains {drift / 1e3:g} us a second"
            for name, drift in zip(hosts, spec.clock_drifts_ppb, strict=False)
            if drift
        ),
        *(
            f"rank {start.rank} lacks its first {start.missing} collectives"
            for start in spec.late_starts
        ),
        *(f"the file of rank {cut.rank} is cut at {cut.fraction:.0%}" for cut in spec.cuts),
    )


_CAUSES = {
    "compute": "computes {} longer",
    "kernel": "computes {} longer, in its attention alone",
    "more_kernels": "runs more kernels, {} in all",
    "tokens": "computes {} longer, for its experts are sent more tokens",
    "copies": "copies its input {} longer",
    "data_loading": "waits {} longer for its data",
    "checkpoint": "saves a checkpoint for {}",
    "garbage_collection": "collects garbage for {}",
    "allocation": "allocates memory for {}",
    "synchronisation": "waits in a synchronisation for {}",
    "operator": "is frozen inside an operator for {}",
    "host": "launches its work {} later, without a reason on its host rows",
}


def delay_sentence(spec: Spec, straggler: Straggler, who: str) -> str:
    """Return what delays a rank, or several that are named by ``who``."""
    what = _CAUSES[straggler.cause].format(duration(straggler.extra_ns))
    if straggler.steps is None:
        return f"{who} {what} in every step"
    steps = sorted(spec.first_step + step for step in straggler.steps)
    noun = "step" if len(steps) == 1 else "steps"
    return f"{who} {what} in {noun} {ranges_text(steps)}"


def link_sentence(link: SlowLink) -> str:
    """Return which collectives take longer."""
    return (
        f"every {link.dimension} collective of rank {link.rank} transfers "
        f"{duration(link.extra_ns)} longer, and no rank is late because of it"
    )


class BubbleTruth(Struct, frozen=True):
    """One rank's pipeline bubble: idle + max(0, exposed p2p - transfer).

    ``transfer_ns`` is the time of transfers while nothing else ran; concurrent transfers count
    once, as in ``exposed_p2p_ns``.
    """

    window_ns: int
    idle_ns: int
    exposed_p2p_ns: int
    transfer_ns: int

    @property
    def bubble_ns(self) -> int:
        """Time without useful work because of the pipeline."""
        return self.idle_ns + max(0, self.exposed_p2p_ns - self.transfer_ns)


class RankTruth(Struct, frozen=True):
    """One rank on its own clock; intervals are merged and clipped to the windows of its steps.

    A window is the time of a step on the device: from the first work that was launched inside its
    marker to that of the next step; of the last step to the last end. Keys of mappings are step
    numbers as in ``ProfilerStep#N``, or type names.
    """

    rank: int
    host: str
    stage: int
    windows: tuple[tuple[int, int], ...]
    work: tuple[tuple[int, int], ...]  # of each step, from first start to last end
    comm_ns: int
    comp_ns: int
    mem_ns: int
    overlap_ns: int
    comm_only_ns: int
    comp_only_ns: int
    mem_only_ns: int
    idle_ns: int
    comm_sum_ns: int
    comp_sum_ns: int
    num_kernels: int
    step_ns: Mapping[int, int]
    calls_by_step: Mapping[int, int]
    calls_by_type: Mapping[str, int]
    bubble: BubbleTruth

    @property
    def window_ns(self) -> int:
        """Length of all windows."""
        return sum(end_ns - start_ns for start_ns, end_ns in self.windows)

    @property
    def exposed_comm_ns(self) -> int:
        """Communication that does not overlap with computation."""
        return self.comm_ns - self.overlap_ns

    @property
    def calls(self) -> int:
        """Communication kernels in the rank's file."""
        return sum(self.calls_by_type.values())


class CallTruth(Struct, frozen=True):
    """One collective (or one p2p transfer) over ``members``.

    ``start_ns`` and ``dur_ns`` are on each member's own clock, None where its file lacks the
    kernel or the kernel's metadata. Lateness is on the true clock: ``late_ns[i]`` is how long
    after the first member the i-th one arrived.
    """

    members: tuple[int, ...]
    group_ranks: tuple[int, ...]
    dimension: Dimension
    description: str
    type: str
    step: int
    start_ns: tuple[int | None, ...]
    dur_ns: tuple[int | None, ...]
    late_ns: tuple[int, ...]
    transfer_ns: int
    message_bytes: int
    wire_bytes: int  # of one rank

    @property
    def complete(self) -> bool:
        """Whether the files of all members contain it."""
        return None not in self.dur_ns

    @property
    def known_dur_ns(self) -> tuple[int, ...]:
        """Durations of the members whose files contain it."""
        return tuple(dur_ns for dur_ns in self.dur_ns if dur_ns is not None)

    @property
    def lag_ns(self) -> int:
        """Longest minus shortest duration: the time that the first rank waited for the last."""
        return max(self.known_dur_ns) - min(self.known_dur_ns)

    @property
    def wait_ns(self) -> tuple[int, ...]:
        """Wait of each member, from durations; only valid for a complete call."""
        shortest_ns = min(self.known_dur_ns)
        return tuple(dur_ns - shortest_ns for dur_ns in self.known_dur_ns)

    @property
    def last(self) -> tuple[int, ...]:
        """Ranks that arrived last on the true clock, several in a tie."""
        latest_ns = max(self.late_ns)
        pairs = zip(self.members, self.late_ns, strict=True)
        return tuple(rank for rank, late_ns in pairs if late_ns == latest_ns)


class Truth(Struct, frozen=True):
    """All known values of a job.

    ``collectives`` and ``transfers`` are in the order of their first arrival.
    """

    spec: Spec
    ranks: tuple[RankTruth, ...]
    collectives: tuple[CallTruth, ...]
    transfers: tuple[CallTruth, ...]
    clock_offset_ns: Mapping[int, int]  # of each rank against rank 0, at the start
    message_bytes: Mapping[str, int]  # of all ranks, by dimension; p2p counted on the sender
    wire_bytes: Mapping[str, int]
    stragglers: tuple[int, ...]  # delayed in every step
    faults: tuple[str, ...]  # one sentence each

    @property
    def step_ns(self) -> Mapping[int, int]:
        """Length of each step that all ranks have: the longest marker of any rank."""
        common = set.intersection(*(set(rank.step_ns) for rank in self.ranks))
        return {step: max(rank.step_ns[step] for rank in self.ranks) for step in sorted(common)}

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch."""
        return self.spec.global_batch * self.spec.seq_len

    @property
    def calls_by_type(self) -> Mapping[str, int]:
        """Communication kernels of all ranks, by the type in the files."""
        types = sorted({kind for rank in self.ranks for kind in rank.calls_by_type})
        return {kind: sum(rank.calls_by_type.get(kind, 0) for rank in self.ranks) for kind in types}

    @property
    def bubble_ratio(self) -> float:
        """Bubble of all ranks over their windows."""
        windows_ns = sum(rank.bubble.window_ns for rank in self.ranks)
        return sum(rank.bubble.bubble_ns for rank in self.ranks) / windows_ns

    @property
    def theoretical_bubble(self) -> float:
        """Share of fill and drain in an ideal schedule."""
        others = self.spec.pp - 1
        return others / (self.spec.micro_batches + others)


Interval = tuple[int, int]
Spent = Counter[frozenset[str]]


def together(classes: Mapping[str, Iterable[Interval]]) -> Spent:
    """Nanoseconds during which exactly each set of classes is active; half-open intervals."""
    edges = [
        (time_ns, change, name)
        for name, intervals in classes.items()
        for start_ns, end_ns in intervals
        for time_ns, change in ((start_ns, 1), (end_ns, -1))
    ]
    edges.sort()
    active: Counter[str] = Counter()
    spent: Spent = Counter()
    before_ns = 0
    for time_ns, change, name in edges:
        if time_ns > before_ns:
            spent[frozenset(key for key, count in active.items() if count)] += time_ns - before_ns
        before_ns = time_ns
        active[name] += change
    del spent[frozenset()]  # time with no active class
    return spent


def total(spent: Spent, present: set[str], absent: set[str] | None = None) -> int:
    """Nanoseconds during which all of ``present`` and none of ``absent`` are active."""
    unwanted = absent or set()
    return sum(ns for names, ns in spent.items() if present <= names and not names & unwanted)


def answers(true: Schedule, seen: Schedule) -> Truth:
    """Compute the known values of a job.

    Args:
        true: Schedule of the job on the true clock.
        seen: Its events in the files, on the clocks of the hosts.
    """
    spec, topology = true.spec, true.topology
    found = _found(seen)
    starts = _true_starts(true)
    in_order = sorted(true.calls, key=lambda call: (min(starts[call.index].values()), call.index))
    calls = [_call(true, call, found, starts[call.index]) for call in in_order]
    offsets = [offset_ns(spec, topology.host_of(rank)) for rank in range(spec.world_size)]
    message: Counter[str] = Counter()
    wire: Counter[str] = Counter()
    for call in calls:
        senders = call.dur_ns[:1] if call.type == "Send" else call.dur_ns
        held = sum(dur_ns is not None for dur_ns in senders)
        message[call.dimension] += held * call.message_bytes
        wire[call.dimension] += held * call.wire_bytes
    return Truth(
        spec,
        tuple(_rank(seen, rank, found) for rank in range(spec.world_size)),
        tuple(call for call in calls if call.type != "Send"),
        tuple(call for call in calls if call.type == "Send"),
        {rank: offset - offsets[0] for rank, offset in enumerate(offsets)},
        dict(message),
        dict(wire),
        tuple(sorted({item.rank for item in spec.stragglers if item.steps is None})),
        fault_sentences(spec, topology),
    )


Found = dict[tuple[int, int], Activity]


def _found(seen: Schedule) -> Found:
    """Activities that can be identified in the files, by (call, rank)."""
    return {
        (activity.call, activity.rank): activity
        for activities in seen.activities
        for activity in activities
        if activity.call >= 0 and not activity.orphan
    }


def _true_starts(true: Schedule) -> dict[int, dict[int, int]]:
    starts: dict[int, dict[int, int]] = {}
    for activities in true.activities:
        for activity in activities:
            starts.setdefault(activity.call, {})[activity.rank] = activity.start_ns
    return starts


def _call(true: Schedule, call: Call, found: Found, starts: dict[int, int]) -> CallTruth:
    first_ns = min(starts[rank] for rank in call.members)
    held = [found.get((call.index, rank)) for rank in call.members]
    message = max(call.in_elems, call.out_elems) * BYTES_PER_ELEMENT[call.dtype]
    size = len(call.members)
    factors = {"Send": (1, 1), "AllReduce": (2 * (size - 1), size)}
    kind = profiler_names.TYPES[call.operation]
    times, parts = factors.get(kind, (size - 1, size))
    return CallTruth(
        call.members,
        call.group.ranks,
        call.group.dimension,
        call.group.description,
        kind,
        true.spec.first_step + call.step,
        tuple(None if item is None else item.start_ns for item in held),
        tuple(None if item is None else item.dur_ns for item in held),
        tuple(starts[rank] - first_ns for rank in call.members),
        call.transfer_ns,
        message,
        message * times // parts,
    )


def _rank(seen: Schedule, rank: int, found: Found) -> RankTruth:
    spec, activities = seen.spec, seen.activities[rank]
    markers = {spec.first_step + item.step: item for item in seen.host[rank] if item.kind == "step"}
    if spec.layout == "old2021":
        markers = {}
    steps = [_step_of(activity, markers) for activity in activities]
    work = _work_of_steps(activities, steps)
    windows = _windows(work)
    spent = together(
        {
            "window": windows,
            "comm": [_interval(item) for item in activities if item.klass == "comm"],
            "comp": [_interval(item) for item in activities if item.klass == "comp"],
            "mem": [_interval(item) for item in activities if item.klass == "mem"],
        }
    )
    inside = {"window"}
    calls = [(item, step) for item, step in zip(activities, steps, strict=True) if item.call >= 0]
    kernels = [item for item in activities if item.klass == "comp"]
    return RankTruth(
        rank=rank,
        host=seen.topology.host_name(rank),
        stage=seen.topology.places[rank].pp,
        windows=tuple(windows),
        work=tuple(work),
        comm_ns=total(spent, inside | {"comm"}),
        comp_ns=total(spent, inside | {"comp"}),
        mem_ns=total(spent, inside | {"mem"}),
        overlap_ns=total(spent, inside | {"comm", "comp"}),
        comm_only_ns=total(spent, inside | {"comm"}, {"comp"}),
        comp_only_ns=total(spent, inside | {"comp"}, {"comm"}),
        mem_only_ns=total(spent, inside | {"mem"}, {"comm", "comp"}),
        idle_ns=total(spent, inside, {"comm", "comp", "mem"}),
        comm_sum_ns=sum(item.dur_ns for item, _ in calls),
        comp_sum_ns=sum(item.dur_ns for item in kernels),
        num_kernels=len(kernels) + len(calls),
        step_ns={step: item.end_ns - item.start_ns for step, item in markers.items()},
        calls_by_step=dict(Counter(step for _, step in calls if step is not None)),
        calls_by_type=dict(Counter(_visible_type(spec, item) for item, _ in calls)),
        bubble=_bubble(seen, rank, work, found),
    )


def _visible_type(spec: Spec, activity: Activity) -> str:
    """Type of a call as recorded in the file: by metadata, else by the kernel's name."""
    if spec.metadata == "names_only" or activity.orphan:
        return profiler_names.kernel_type(activity.kind, spec.library)
    return profiler_names.TYPES[activity.kind]


def _step_of(activity: Activity, markers: dict[int, HostRange]) -> int | None:
    """Step whose marker contains the launch, or the start where the launch is unknown."""
    at_ns = activity.start_ns if activity.orphan else activity.launch_ns
    for step, marker in markers.items():
        if marker.start_ns <= at_ns < marker.end_ns:
            return step
    return None


def _windows(work: list[Interval]) -> list[Interval]:
    """Time of each step from its first start to that of the next, of the last to the last end."""
    begins = [start_ns for start_ns, _ in work]
    return list(zip(begins, [*begins[1:], max(end_ns for _, end_ns in work)], strict=True))


def _work_of_steps(activities: tuple[Activity, ...], steps: list[int | None]) -> list[Interval]:
    """First start to last end of the work of each step; of all work where no step is known."""
    known = [step for step in steps if step is not None]
    if not known:
        return [(min(a.start_ns for a in activities), max(a.end_ns for a in activities))]
    windows = []
    for step in sorted(set(known)):
        inside = [item for item, at in zip(activities, steps, strict=True) if at == step]
        windows.append((min(item.start_ns for item in inside), max(item.end_ns for item in inside)))
    return windows


def _interval(activity: Activity) -> Interval:
    return activity.start_ns, activity.end_ns


def _bubble(seen: Schedule, rank: int, windows: list[Interval], found: Found) -> BubbleTruth:
    activities = seen.activities[rank]
    passing = [item for item in activities if item.kind in ("send", "recv")]
    useful = [_interval(item) for item in activities if item.kind not in ("send", "recv")]
    spent = together(
        {
            "window": windows,
            "useful": useful,
            "p2p": [_interval(item) for item in passing],
            "moving": _moving(seen, passing, found),
        }
    )
    return BubbleTruth(
        window_ns=sum(end_ns - start_ns for start_ns, end_ns in windows),
        idle_ns=total(spent, {"window"}, {"useful", "p2p"}),
        exposed_p2p_ns=total(spent, {"window", "p2p"}, {"useful"}),
        transfer_ns=total(spent, {"window", "moving"}, {"useful"}),
    )


def _moving(seen: Schedule, passing: list[Activity], found: Found) -> list[Interval]:
    """Last part of every p2p kernel, as long as the shorter side, which did not wait."""
    parts = []
    for item in passing:
        partners = [found.get((item.call, member)) for member in seen.calls[item.call].members]
        durations = [partner.dur_ns for partner in partners if partner is not None]
        if len(durations) == 2:
            parts.append((item.end_ns - min(durations), item.end_ns))
    return parts
