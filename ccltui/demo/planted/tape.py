"""Record what a rank launches: host operators, kernels on streams, calls, waits, pauses."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from ccltui.demo.planted.event_graph import Call, Meeting, Op, Segment
from ccltui.demo.planted.job_spec import JobSpec

MAIN: Final = 7
SIDE: Final = 50
COPY: Final = 9
CALL_HOST_NS: Final = 24_000
WAIT_NS: Final = 3_000
BYTES_PER_NS: Final = 100  # of the size that a transfer's usual time states
BETWEEN_HOSTS: Final = 1.6  # time of a transfer between hosts, in times of one within a host
SKEW_NS: Final = 6_000  # each member ends 0 to this much after the call


class HostEvent(Struct):
    """A range on the host rows, relative to the beginning of its segment."""

    category: str
    name: str
    segment: Segment
    offset_ns: int
    end_segment: Segment
    end_offset_ns: int
    backward: bool = False

    @property
    def start_ns(self) -> int:
        """Start on the true clock."""
        return self.segment.start_ns + self.offset_ns

    @property
    def end_ns(self) -> int:
        """End on the true clock."""
        return self.end_segment.start_ns + self.end_offset_ns


class Simulation(Struct):
    """Everything that all ranks record, before and after evaluation."""

    spec: JobSpec
    ops: list[Op] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    calls: dict[tuple[object, ...], Call] = field(default_factory=dict)

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


class Tape:
    """What one rank launches, in the order of its host."""

    def __init__(self, job: Simulation, rank: int) -> None:
        self.job = job
        self.spec = job.spec
        self.rank = rank
        self.step = 0
        self.segment = Segment(None, [])
        job.segments.append(self.segment)
        self.last: dict[int, Op] = {}  # on each stream
        self.waits: dict[int, list[Op]] = {}  # what the next operation of a stream waits for
        self.host: list[HostEvent] = []
        self.ops: list[Op] = []
        self.graph = 0  # number of the replay that is recorded, 0 outside of one
        self._graphs = 0
        self._open: list[tuple[str, str, Segment, int]] = []
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
        after: Iterable[Op] = (),
    ) -> Op:
        """Launch a kernel or copy; ``vary`` draws its variation."""
        if vary:
            dur_ns *= max(0.2, 1 + self._kernels.gauss(0, self.spec.jitter / 2))
        op = self._launch(kind, stream, max(1_000, int(dur_ns)), backward, self._operator_ns())
        self._queue(op, [*after, *self.waits.pop(stream, ())])
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
        after: Iterable[Op] | None = None,
        group: tuple[int, ...] | None = None,
        weight: float = 1.0,
    ) -> Op:
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
        self._queue(op, [*after, *own])
        return op

    def pending_main(self) -> list[Op]:
        """All that an operation launched now behind the main stream has to wait for."""
        last = self.last.get(MAIN)
        return [*([last] if last is not None else []), *self.waits.get(MAIN, ())]

    def wait(self, *ops: Op, stream: int = MAIN) -> None:
        """Let a stream wait for operations."""
        self.waits.setdefault(stream, []).extend(op for op in ops if op.stream != stream)
        self._advance(WAIT_NS)

    def busy(self, category: str, name: str, dur_ns: int, *, backward: bool = False) -> None:
        """Keep the host busy; an empty name leaves no event."""
        begin = self.segment.length_ns
        self._advance(dur_ns)
        if name:
            self.host.append(
                HostEvent(
                    category,
                    name,
                    self.segment,
                    begin,
                    self.segment,
                    self.segment.length_ns,
                    backward=backward,
                )
            )

    def sync(self, *, main_only: bool = False) -> None:
        """Let the host wait for the main stream, or for all device work so far.

        In the middle of a step a wait for all streams would include receives that are posted
        ahead, which the peer may only send after it has heard from this rank: a deadlock.
        """
        begin, before = self.segment.length_ns, self.segment
        name = "cudaStreamSynchronize" if main_only else "cudaDeviceSynchronize"
        waits = self.pending_main()
        if not main_only:
            waits = [*self.last.values(), *(op for ops in self.waits.values() for op in ops)]
        self.segment = Segment(before, waits)
        self.job.segments.append(self.segment)
        self.segment.length_ns = WAIT_NS
        self.host.append(
            HostEvent("cuda_runtime", name, before, begin, self.segment, self.segment.length_ns)
        )

    def begin(self, category: str, name: str) -> None:
        """Begin a range around what follows."""
        self._open.append((category, name, self.segment, self.segment.length_ns))

    def end(self, *, backward: bool = False) -> None:
        """End the range that was begun last."""
        category, name, segment, offset_ns = self._open.pop()
        self.host.append(
            HostEvent(
                category,
                name,
                segment,
                offset_ns,
                self.segment,
                self.segment.length_ns,
                backward=backward,
            )
        )

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

    def _launch(self, kind: str, stream: int, dur_ns: int, backward: bool, host_ns: int) -> Op:
        op = Op(self.rank, kind, stream, dur_ns, self.step)
        op.backward = backward
        op.graph = self.graph
        if op.graph and self.ops and self.ops[-1].graph == op.graph:
            host_ns = 0  # the first launches all
        op.segment = self.segment
        op.host_ns = host_ns
        op.launch_ns = self.segment.length_ns + (0 if self.spec.free_hosts else host_ns // 2)
        self._advance(host_ns)
        self.ops.append(op)
        self.job.ops.append(op)
        return op

    def _queue(self, op: Op, after: list[Op]) -> None:
        earlier = self.last.get(op.stream)
        op.after = list(
            {id(one): one for one in (*after, *([earlier] if earlier else ()))}.values()
        )
        self.last[op.stream] = op
