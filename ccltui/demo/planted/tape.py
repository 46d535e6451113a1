"""Record what a rank launches: host operators, kernels on streams, calls, waits, pauses."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from ccltui.demo.event_graph import MAIN, Graph, Host, Op, Segment
from ccltui.demo.planted.job_spec import JobSpec

SIDE: Final = 50
COPY: Final = 9
CALL_HOST_NS: Final = 24_000
WAIT_NS: Final = 3_000
BYTES_PER_NS: Final = 100  # of the size that a transfer's usual time states
BETWEEN_HOSTS: Final = 1.6  # time of a transfer between hosts, in times of one within a host
SKEW_NS: Final = 6_000  # each member ends 0 to this much after the call


RankOp = Op[int]
Meeting = Literal["all", "sender", "previous"]


class Call(Struct):
    """One collective or transfer; ``members`` fill up while programs are recorded.

    It ends for its members after all of them, its sender, or the member before each, have started.
    """

    index: int
    operation: str
    ranks: tuple[int, ...]  # members in group order; source and destination of a transfer
    group: tuple[int, ...]  # the process group; of a transfer, that of the pipeline
    label: str  # kind of group: "dp", "tp", "pp", "ep", "world"
    transfer_ns: int
    elements: int
    meeting: Meeting
    step: int
    splits: dict[int, tuple[int, ...]] = field(default_factory=dict)  # sent, by rank
    members: dict[int, RankOp] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)

    def started(self, op: RankOp) -> Sequence[RankOp]:
        """Take note of the start of a member, and return those whose end is known by that."""
        self.begun.add(op.rank)
        if self.meeting == "all":
            if len(self.begun) < len(self.ranks):
                return []
            members = list(self.members.values())
            met_ns = max(member.start_ns for member in members)
            for member in members:
                member.end(met_ns + self.transfer_ns)
            return members
        return self._from_source()

    def _from_source(self) -> list[RankOp]:
        """Each rank waits for one other, the first or the one before it; a sender for nobody."""
        ended = []
        for place, rank in enumerate(self.ranks):
            source = self.ranks[place - 1 if self.meeting == "previous" else 0]
            member = self.members[rank]
            if {rank, source} <= self.begun and not member.ended:
                met_ns = max(member.start_ns, self.members[source].start_ns)
                member.end(met_ns + self.transfer_ns)
                ended.append(member)
        return ended


class Simulation(Graph[int]):
    """Everything that all ranks record, before and after evaluation."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__()
        self.spec = spec
        self.calls: dict[tuple[object, ...], Call] = {}

    def call(self, key: tuple[object, ...], operation: str, ranks: tuple[int, ...]) -> Call:
        """The call of a key; it is created by the first member that posts it."""
        found = self.calls.get(key)
        if found is None:
            found = Call(len(self.calls), operation, ranks, ranks, "", 0, 0, "all", 0)
            self.calls[key] = found
        return found

    def transfer_ns(self, key: tuple[object, ...], ranks: tuple[int, ...], usual_ns: float) -> int:
        """Time of a transfer after its last member has arrived, with variation and slow links."""
        spec = self.spec
        chance = random.Random(f"{spec.seed}/{key}")
        time_ns = usual_ns * (1 + abs(chance.gauss(0, spec.jitter / 2)))
        if len({spec.host_of(rank) for rank in ranks}) > 1:
            time_ns *= BETWEEN_HOSTS
            for fault in spec.faults:
                time_ns *= fault.factor if fault.kind == "slow_network" else 1.0
        for fault in spec.faults:
            if fault.kind in ("slow_pair", "slow_group") and set(fault.ranks) == set(ranks):
                time_ns *= fault.factor
        return int(time_ns)


class Tape(Host[int]):
    """What one rank launches, in the order of its host."""

    def __init__(self, job: Simulation, rank: int) -> None:
        super().__init__(job, 0)
        self.job = job
        self.spec = job.spec
        self.rank = rank
        self.graph = 0  # number of the replay that is recorded, 0 outside of one
        self._graphs = 0
        self._open: list[tuple[str, Segment[int], int]] = []
        self._kernels = random.Random(f"{job.spec.seed}/{rank}/kernels")
        self._host = random.Random(f"{job.spec.seed}/{rank}/host")
        self._ends = random.Random(f"{job.spec.seed}/{rank}/ends")

    def work(
        self,
        kind: str,
        dur_ns: float,
        *,
        backward: bool = False,
        stream: int = MAIN,
        vary: bool = True,
        after: Iterable[RankOp] = (),
    ) -> RankOp:
        """Launch a kernel or copy; ``vary`` draws its variation."""
        if vary:
            dur_ns *= max(0.2, 1 + self._kernels.gauss(0, self.spec.jitter / 2))
        op = self._launch(kind, stream, max(1_000, int(dur_ns)), backward, self._operator_ns())
        self.queue(op, [*after, *self.waits.pop(stream, ())])
        return op

    def call(
        self,
        key: tuple[object, ...],
        operation: str,
        ranks: tuple[int, ...],
        label: str,
        usual_ns: float,
        *,
        stream: int,
        backward: bool = False,
        meeting: Meeting = "all",
        after: Iterable[RankOp] | None = None,
        group: tuple[int, ...] | None = None,
        weight: float = 1.0,
    ) -> RankOp:
        """Post a collective or transfer; it waits for the main stream unless ``after`` is given."""
        call = self.job.call(key, "send" if operation == "recv" else operation, ranks)
        if not call.members:
            call.label, call.step, call.group = label, self.step, group or ranks
            call.meeting = meeting
            call.transfer_ns = self.job.transfer_ns(key, ranks, usual_ns * weight)
            size = len(ranks) * 64
            call.elements = max(1, int(usual_ns * BYTES_PER_NS / 2) // size) * size
        same_stream = self.spec.same_stream and label != "pp"
        stream = MAIN if same_stream else stream
        op = self._launch(operation, stream, 0, backward, CALL_HOST_NS)
        op.call = call
        call.members[self.rank] = op
        op.skew_ns = self._ends.randint(0, SKEW_NS)
        if after is None:
            after = self.pending_main()
        own = self.waits.pop(stream, []) if stream != MAIN or same_stream else []
        self.queue(op, [*after, *own])
        return op

    def wait(self, *ops: RankOp, stream: int = MAIN) -> None:
        """Let a stream wait for operations."""
        self.waits.setdefault(stream, []).extend(op for op in ops if op.stream != stream)
        self._advance(WAIT_NS)

    def busy(self, kind: str, dur_ns: int, *, backward: bool = False) -> None:
        """Keep the host busy; an empty kind leaves no event."""
        begin = self.segment.length_ns
        self._advance(dur_ns)
        if kind:
            self.span(kind, self.segment, begin, backward)

    def sync(self, *, main_only: bool = False) -> None:
        """Let the host wait for the main stream, or for all device work so far.

        In the middle of a step a wait for all streams would include receives that are posted
        ahead, which the peer may only send after it has heard from this rank: a deadlock.
        """
        kind = "sync" if main_only else "synchronisation"
        waits = self.pending_main()
        if not main_only:
            waits = [*self.last.values(), *(op for ops in self.waits.values() for op in ops)]
        self.wait_on_host(kind, waits, after_ns=WAIT_NS)

    def begin(self, kind: str) -> None:
        """Begin a range around what follows."""
        self._open.append((kind, self.segment, self.segment.length_ns))

    def end(self, *, backward: bool = False) -> None:
        """End the range that was begun last."""
        self.span(*self._open.pop(), backward)

    def begin_graph(self) -> None:
        """Begin a replay, where passes are replayed: what follows is launched at once."""
        if self.spec.graphs:
            self._graphs += 1
            self.graph = self._graphs

    def end_graph(self) -> None:
        """End the replay."""
        self.graph = 0

    def _advance(self, dur_ns: int) -> None:
        if not self.spec.free_hosts:
            self.segment.length_ns += dur_ns

    def pass_factor(self) -> float:
        """Random factor of a pass."""
        return max(0.3, 1 + self._kernels.gauss(0, self.spec.jitter))

    def _operator_ns(self) -> int:
        usual_ns = self.spec.host_op_ns * (0.9 + 0.2 * self._host.random())
        for fault in self.spec.faults:
            if fault.kind == "launch_bound" and fault.acts(self.rank, self.step):
                usual_ns *= fault.factor
        return int(usual_ns)

    def _launch(self, kind: str, stream: int, dur_ns: int, backward: bool, host_ns: int) -> RankOp:
        op: RankOp = Op(self.rank, kind, stream, dur_ns, self.step)
        op.backward = backward
        op.graph = self.graph
        if op.graph and self.ops and self.ops[-1].graph == op.graph:
            host_ns = 0  # the first launches all
        op.host_ns = host_ns
        self.add(op, 0 if self.spec.free_hosts else host_ns // 2)
        self._advance(host_ns)
        return op
