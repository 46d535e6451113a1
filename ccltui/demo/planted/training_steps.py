"""Training steps of each kind of parallelism, as programs of all ranks with computed times.

Data, tensor and fully sharded parallelism, and the orders of pipeline passes: 1F1B, GPipe, and 1F1B
over several model chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Final

from msgspec import Struct

from ccltui.demo.event_graph import MAIN, evaluate
from ccltui.demo.planted.job_spec import Fault, FaultKind, JobSpec, Workload
from ccltui.demo.planted.tape import COPY, SIDE, Call, RankOp, Simulation, Tape

LOADING_NS: Final = 250_000
"""Wait of every rank for its next batch."""

COPIES_OF_CHECKPOINT: Final = 8
STOPS: Final = 4
"""Allocations or synchronisations of a step that the pause is divided into."""


class HostPauses:
    """Insert the pauses of the faults of one rank."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.spec = tape.spec

    def at_begin(self) -> None:
        """Wait for the next batch."""
        extra_ns = sum(fault.extra_ns for fault in self._acting("data_loading"))
        silent = any(fault.silent for fault in self._acting("data_loading"))
        self.tape.busy("data_loading", LOADING_NS + (0 if silent else extra_ns))
        if silent:
            self.tape.busy("", extra_ns)

    def in_forward(self, batch: int, layer: int) -> None:
        """Pause the main thread inside a forward pass."""
        tape = self.tape
        # The place in the step differs by step and rank, as that of a collection does.
        chosen = (tape.step * 7 + tape.rank * 3) % self.spec.micro_batches
        if batch == chosen and layer == 0:
            for fault in self._acting("garbage_collection"):
                tape.busy("" if fault.silent else fault.kind, fault.extra_ns)
        self._stop(batch, layer, backward=False)

    def in_backward(self, batch: int, layer: int) -> None:
        """Pause inside a backward pass."""
        self._stop(batch, layer, backward=True)

    def at_end(self) -> None:
        """Save a checkpoint: wait for the device, copy out, write."""
        tape = self.tape
        for fault in self._acting("checkpoint"):
            tape.sync()
            if not fault.silent:
                tape.begin("checkpoint")
            for _ in range(COPIES_OF_CHECKPOINT):
                share_ns = fault.extra_ns // (2 * COPIES_OF_CHECKPOINT)
                tape.work("copy_out", share_ns, stream=COPY, vary=False)
            tape.sync()
            tape.busy("", fault.extra_ns // 2)
            if not fault.silent:
                tape.end()

    def _stop(self, batch: int, layer: int, *, backward: bool) -> None:
        """Allocate, or synchronise and log, at a few places of the step."""
        if layer or batch >= STOPS // 2:
            return
        tape = self.tape
        places = min(STOPS, 2 * self.spec.micro_batches)
        for fault in self._acting("allocation"):
            # Memory is returned and mapped anew only when the stream has drained.
            tape.sync(main_only=True)
            kind = "" if fault.silent else fault.kind
            tape.busy(kind, fault.extra_ns // places, backward=backward)
        for fault in self._acting("synchronisation"):
            tape.sync(main_only=True)
            tape.busy("", fault.extra_ns // places, backward=backward)

    def _acting(self, kind: FaultKind) -> list[Fault]:
        return [
            fault
            for fault in self.spec.faults
            if fault.kind == kind and fault.acts(self.tape.rank, self.tape.step)
        ]


TP_STREAM: Final = 13
EP_STREAM: Final = 41

BEFORE: Final = (("norm", 0.1), ("gemm", 1.0), ("attention", 0.9), ("gemm", 0.6))
INSIDE: Final = (("gemm", 1.1), ("elementwise", 0.15), ("gemm", 1.0))
BACKWARD: Final = 2.0
"""Cost of a backward kernel in forward ones."""

Hook = Callable[[int], None]


def _nothing(_: int) -> None:
    return


class Layers:
    """Record the passes of one rank."""

    def __init__(self, tape: Tape, load: Workload, pauses: HostPauses) -> None:
        self.tape = tape
        self.load = load
        self.pauses = pauses
        self.spec = tape.spec
        stage, dp, tp = self.spec.place(tape.rank)
        self.tp_group = tuple(self.spec.rank_at(stage, dp, other) for other in range(self.spec.tp))
        self.ep_group = tuple(self.spec.rank_at(stage, other, tp) for other in range(self.spec.dp))

    def forward(self, batch: int, chunk: int = 0, *, before: Hook = _nothing) -> None:
        """Record a forward pass; ``before`` is called before each layer."""
        tape, spec = self.tape, self.spec
        scale = self.load.forward(tape.rank, tape.step, batch) * tape.pass_factor()
        scale *= self.load.rare(tape.rank, tape.step, batch, chunk, backward=False)
        if spec.pass_ranges:
            tape.begin(f"Forward {batch}")
        tape.begin_graph()
        for layer in range(spec.layers):
            before(layer)
            self.pauses.in_forward(batch, layer)
            self._layer(scale, f"F/{batch}/{chunk}/{layer}", backward=False)
        last_chunk = chunk == spec.chunks - 1
        if last_chunk and (extra := self.load.logits(tape.rank)):
            total = sum(cost for _, cost in (*BEFORE, *INSIDE)) * spec.layers * spec.chunks
            tape.work("gemm", extra * total * spec.kernel_ns, vary=False)
        tape.end_graph()
        self._decoy()
        if spec.pass_ranges:
            tape.end()

    def backward(
        self, batch: int, chunk: int = 0, *, before: Hook = _nothing, after: Hook = _nothing
    ) -> None:
        """Record a backward pass; the hooks are called around each layer, last layer first."""
        tape, spec = self.tape, self.spec
        scale = self.load.backward(tape.rank, tape.step, batch) * tape.pass_factor()
        scale *= self.load.rare(tape.rank, tape.step, batch, chunk, backward=True)
        if spec.pass_ranges:
            tape.begin(f"Backward {batch}")
        tape.begin_graph()
        for layer in reversed(range(spec.layers)):
            before(layer)
            self.pauses.in_backward(batch, layer)
            self._layer(scale * BACKWARD, f"B/{batch}/{chunk}/{layer}", backward=True)
            after(layer)
        tape.end_graph()
        if spec.pass_ranges:
            tape.end(backward=True)

    def _layer(self, scale: float, name: str, *, backward: bool) -> None:
        if self.spec.one_kernel and self.spec.tp == 1 and self.spec.family != "moe":
            self._kernel("gemm", sum(c for _, c in (*BEFORE, *INSIDE)) * scale, backward=backward)
            return
        for kind, cost in BEFORE:
            self._kernel(kind, cost * scale, backward=backward)
        self._reduce(f"{name}/attention", backward=backward)
        if self.spec.family == "moe":
            self._experts(scale, name, backward=backward)
        else:
            for kind, cost in INSIDE:
                self._kernel(kind, cost * scale, backward=backward)
        self._reduce(f"{name}/mlp", backward=backward)

    def _kernel(self, kind: str, cost: float, *, backward: bool) -> None:
        self.tape.work(kind, cost * self.spec.kernel_ns, backward=backward)

    def _reduce(self, name: str, *, backward: bool) -> None:
        """Add up partial results over the tensor-parallel group."""
        tape, spec = self.tape, self.spec
        if spec.tp == 1:
            return
        if spec.ring:
            self._go_around(name, backward=backward)
            return
        operation = "symmetric" if spec.reduction == "symmetric" else "allreduce"
        done = tape.call(
            ("tp", self.tp_group, tape.step, name),
            operation,
            self.tp_group,
            "tp",
            spec.transfer_ns * 0.25,
            stream=TP_STREAM,
            backward=backward,
        )
        tape.wait(done)

    def _go_around(self, name: str, *, backward: bool) -> None:
        """Hand blocks of the context around the ring, until each rank has seen all."""
        tape, spec = self.tape, self.spec
        for hop in range(spec.tp - 1):
            done = tape.call(
                ("ring", self.tp_group, tape.step, name, hop),
                "batch",
                self.tp_group,
                "cp",
                spec.transfer_ns * 0.25 / (spec.tp - 1),
                stream=TP_STREAM,
                backward=backward,
                meeting="previous",
            )
            tape.wait(done)

    def _experts(self, scale: float, name: str, *, backward: bool) -> None:
        """Send tokens to their experts, compute, and send them back."""
        tape, group = self.tape, self.ep_group
        loads = self.load.experts(group, f"{group}/{tape.step}/{name}", tape.step)
        place = group.index(tape.rank)
        self._exchange(f"{name}/dispatch", loads, backward=backward, back=False)
        for kind, cost in INSIDE:
            self._kernel(kind, cost * scale * loads[place], backward=backward)
        self._exchange(f"{name}/combine", loads, backward=backward, back=True)

    def _exchange(self, name: str, loads: list[float], *, backward: bool, back: bool) -> None:
        tape, spec, group = self.tape, self.spec, self.ep_group
        if spec.exchange == "deepep" and not back:
            self._post("notify_dispatch", f"{name}/notify", 0.03, backward=backward)
        direction = "combine" if back else "dispatch"
        operation = direction if spec.exchange == "deepep" else "all_to_allv"
        done = self._post(operation, name, max(loads) * 0.5, backward=backward)
        place = group.index(tape.rank)
        own = [round(load * 512) * 64 for load in loads]
        done.splits[tape.rank] = (own[place],) * len(group) if back else tuple(own)

    def _post(self, operation: str, name: str, weight: float, *, backward: bool) -> Call:
        """Post one exchange of the experts' group and let the main stream wait for it."""
        tape, group = self.tape, self.ep_group
        done = tape.call(
            ("ep", group, tape.step, name),
            operation,
            group,
            "ep",
            self.spec.transfer_ns,
            stream=EP_STREAM,
            backward=backward,
            weight=weight,
        )
        tape.wait(done)
        assert isinstance(done.call, Call)
        return done.call

    def _decoy(self) -> None:
        """Long kernels on a stream that nothing waits for."""
        tape = self.tape
        for fault in self.spec.faults:
            if fault.kind == "decoy" and fault.acts(tape.rank, tape.step):
                tape.work("side", fault.factor * self.spec.kernel_ns, stream=SIDE, vary=False)

    def load_input(self, size_ns: float) -> None:
        """Copy the input to the device."""
        tape = self.tape
        done = tape.work("copy_in", size_ns, stream=COPY)
        tape.wait(done)


DP_STREAM: Final = 20
WORLD_STREAM: Final = 25
BUFFER_STREAM: Final = 26
OWN_STREAM: Final = 27
TRANSFER_STREAMS: Final = {
    ("send", False): 31,
    ("recv", False): 32,
    ("send", True): 33,
    ("recv", True): 34,
}
INPUT_NS: Final = 60_000
NORM: Final = 0.4
OPTIMIZER: Final = 2.5
TRANSFER: Final = 0.15  # of an activation between stages, in collectives of average size
BUFFERS: Final = 0.05


class ReplicatedStep:
    """Record the steps of one rank of the families dp, tp, pp and moe."""

    def __init__(self, tape: Tape, load: Workload) -> None:
        self.tape = tape
        self.spec = tape.spec
        self.pauses = HostPauses(tape)
        self.layers = Layers(tape, load, self.pauses)
        self.stage, self.dp, self.tp = self.spec.place(tape.rank)
        spec = self.spec
        self.dp_group = tuple(spec.rank_at(self.stage, other, self.tp) for other in range(spec.dp))
        self.pipeline = tuple(spec.rank_at(other, self.dp, self.tp) for other in range(spec.pp))
        self.reductions: list[RankOp] = []
        self.batched: dict[tuple[bool, int], RankOp] = {}  # receives that a batch holds, by pass

    def record(self, step: int) -> None:
        """Record one step."""
        tape = self.tape
        tape.step = step
        self.pauses.at_begin()
        if self.stage == 0 or self.stage == self.spec.pp - 1:
            self.layers.load_input(INPUT_NS)
        self._broadcast()
        order = passes(self.spec, self.stage)
        receives: list[RankOp | None] = []
        ahead = 1 if self.spec.prefetch else 0
        for place, one in enumerate(order):
            while len(receives) < min(len(order), place + 1 + ahead):
                receives.append(self._transfer("recv", order[len(receives)]))
            received = receives[place]
            if received is not None:
                tape.wait(received)
            self._run(one, last=self._is_last(order, place))
            if not self._batch(one):
                self._transfer("send", one)
        self._finish()

    def _is_last(self, order: list[Pass], place: int) -> bool:
        """Whether it is the last backward pass of its chunk."""
        one = order[place]
        return one.backward and not any(
            later.backward and later.chunk == one.chunk for later in order[place + 1 :]
        )

    def _run(self, one: Pass, *, last: bool) -> None:
        if not one.backward:
            self.layers.forward(one.batch, one.chunk)
            return
        reduce_now = last and self.spec.dp > 1 and self.spec.overlap

        def after(layer: int) -> None:
            if reduce_now:
                self._reduce(f"{one.chunk}/{layer}", 1.0)

        self.layers.backward(one.batch, one.chunk, after=after)

    def _reduce(self, name: str, weight: float) -> None:
        """Reduce gradients over the data-parallel ranks."""
        self.reductions.append(
            self.tape.call(
                ("dp", self.dp_group, self.tape.step, name),
                "allreduce",
                self.dp_group,
                "dp",
                self.spec.transfer_ns * weight,
                stream=DP_STREAM,
                backward=True,
            )
        )

    def _transfer(self, operation: str, one: Pass) -> RankOp | None:
        """Post the receive before or the send after a pass; None at the ends of the pipeline."""
        spec, tape = self.spec, self.tape
        if operation == "recv" and (one.backward, one.batch) in self.batched:
            return self.batched.pop((one.backward, one.batch))
        towards_end = (operation == "send") != one.backward
        depth = one.chunk * spec.pp + self.stage
        other = depth + (1 if towards_end else -1)
        if spec.pp == 1 or not 0 <= other < spec.pp * spec.chunks:
            return None
        peer = self.pipeline[other % spec.pp]
        source, target = (tape.rank, peer) if operation == "send" else (peer, tape.rank)
        low = min(depth, other)
        return tape.call(
            ("pp", source, target, tape.step, one.backward, one.batch, low),
            operation,
            (source, target),
            "pp",
            spec.transfer_ns * TRANSFER,
            stream=self._stream(operation, one),
            backward=one.backward,
            group=self.pipeline,
        )

    def _stream(self, operation: str, one: Pass) -> int:
        """Stream of a transfer: batches are all made by one communicator."""
        backward = one.backward and not self.spec.coalesced
        return TRANSFER_STREAMS["send" if self.spec.coalesced else operation, backward]

    def _batch(self, one: Pass) -> bool:
        """Post the send after a pass and the receive before the next one as one call.

        Both sides do so while forward and backward passes take turns; False outside of that time.
        """
        spec, lower = self.spec, self.stage - (1 if one.backward else 0)
        warm_up = min(spec.micro_batches, spec.pp - 1 - lower)
        nth = one.batch - (0 if one.backward else warm_up)
        between = 0 <= lower < spec.pp - 1 and 0 <= nth < spec.micro_batches - warm_up
        if not spec.batched or not between:
            return False
        ranks = self.pipeline[lower], self.pipeline[lower + 1]
        self.batched[not one.backward, nth + (warm_up if one.backward else 0)] = self.tape.call(
            ("pp", ranks, self.tape.step, nth),
            "batch",
            ranks,
            "pp",
            spec.transfer_ns * TRANSFER,
            stream=self._stream("send", one),
            backward=one.backward,
            group=self.pipeline,
        )
        return True

    def _broadcast(self) -> None:
        if not self.spec.broadcast_buffers or self.spec.dp == 1:
            return
        tape = self.tape
        done = tape.call(
            ("buffers", self.dp_group, tape.step),
            "broadcast",
            self.dp_group,
            "dp",
            self.spec.transfer_ns * BUFFERS,
            stream=BUFFER_STREAM,
            meeting="sender",
        )
        tape.wait(done)

    def _finish(self) -> None:
        tape, spec = self.tape, self.spec
        if spec.dp > 1 and not spec.overlap:
            self._reduce("all", float(spec.layers * spec.chunks))
        tape.wait(*self.reductions)
        self.reductions = []
        finish(tape, self.pauses)


def finish(tape: Tape, pauses: HostPauses) -> None:
    """Norm of the gradients, optimizer, and the wait of the host."""
    spec = tape.spec
    world = tuple(range(spec.world_size))
    tape.work("grad_norm", spec.kernel_ns * NORM)
    if spec.world_norm and len(world) > 1:
        done = tape.call(
            ("world", tape.step),
            "allreduce",
            world,
            "world",
            spec.transfer_ns * 0.05,
            stream=WORLD_STREAM,
        )
        tape.wait(done)
    tape.work("optimizer", spec.kernel_ns * OPTIMIZER)
    for number in range(spec.own_calls if tape.rank == 0 else 0):
        key = ("own", tape.step, number)
        own = tape.call(
            key, "broadcast", (0,), "own", spec.transfer_ns * BUFFERS, stream=OWN_STREAM
        )
        tape.wait(own)
    pauses.at_end()
    if spec.host_sync:
        tape.sync()


class Pass(Struct, frozen=True):
    """A forward or backward pass of a micro-batch through a model chunk."""

    backward: bool
    batch: int
    chunk: int = 0


def passes(spec: JobSpec, stage: int) -> list[Pass]:
    """All passes of a stage in a step."""
    if spec.chunks > 1:
        return _interleaved(spec, stage)
    count = spec.micro_batches
    warm_up = count if spec.schedule == "gpipe" else min(count, spec.pp - 1 - stage)
    order = [Pass(False, batch) for batch in range(warm_up)]
    for batch in range(count - warm_up):
        order += [Pass(False, warm_up + batch), Pass(True, batch)]
    return order + [Pass(True, batch) for batch in range(count - warm_up, count)]


def _interleaved(spec: JobSpec, stage: int) -> list[Pass]:
    """As Megatron does: groups of as many micro-batches as stages, chunk by chunk."""
    total = spec.micro_batches * spec.chunks
    warm_up = min(total, 2 * (spec.pp - stage - 1) + (spec.chunks - 1) * spec.pp)
    forward = [_nth(spec, k, backward=False) for k in range(total)]
    backward = [_nth(spec, k, backward=True) for k in range(total)]
    order = forward[:warm_up]
    for k in range(total - warm_up):
        order += [forward[warm_up + k], backward[k]]
    return order + backward[total - warm_up :]


def _nth(spec: JobSpec, k: int, *, backward: bool) -> Pass:
    span = spec.pp * spec.chunks
    chunk = k % span // spec.pp
    batch = k // span * spec.pp + k % spec.pp
    return Pass(backward, batch, spec.chunks - 1 - chunk if backward else chunk)


GATHER_STREAM: Final = 21
SCATTER_STREAM: Final = 22


class ShardedStep:
    """Record the steps of one rank.

    All-gathers and reduce-scatters have a stream each. The all-gather of the next layer is posted
    before the layer that computes, and waits until the layer before that one has freed its
    parameters; without prefetch an all-gather begins when the layer before has been computed. The
    reduce-scatter of a layer waits for its backward pass.
    """

    def __init__(self, tape: Tape, load: Workload) -> None:
        self.tape = tape
        self.spec = tape.spec
        self.pauses = HostPauses(tape)
        self.layers = Layers(tape, load, self.pauses)
        _, _, tp = self.spec.place(tape.rank)
        self.group = tuple(self.spec.rank_at(0, dp, tp) for dp in range(self.spec.dp))
        self.gathered: dict[int, RankOp] = {}  # by place in the sequence of layers of a step
        self.freed: list[RankOp] = []  # last kernel of each layer so far
        self.scattered: list[RankOp] = []

    def record(self, step: int) -> None:
        """Record one step."""
        tape, spec = self.tape, self.spec
        tape.step = step
        self.gathered, self.freed, self.scattered = {}, [], []
        self.pauses.at_begin()
        self.layers.load_input(INPUT_NS)
        count = 0
        total = 2 * spec.micro_batches * spec.layers

        def before(_: int) -> None:
            nonlocal count
            ahead = 2 if spec.prefetch else 1
            for place in range(count, min(total, count + ahead)):
                self._gather(place)
            if count and (last := tape.last.get(MAIN)) is not None:
                self.freed.append(last)
            tape.wait(self.gathered[count])
            count += 1

        def after(layer: int) -> None:
            self._scatter(batch, layer)

        for batch in range(spec.micro_batches):
            self.layers.forward(batch, before=before)
            self.layers.backward(batch, before=before, after=after)
        tape.wait(*self.scattered)
        finish(tape, self.pauses)

    def _gather(self, place: int) -> None:
        """Post the all-gather of a layer, once."""
        if place in self.gathered:
            return
        tape, spec = self.tape, self.spec
        layers = spec.layers
        inside = place % (2 * layers)
        backward = inside >= layers
        # Two layers fit into memory: the one before the last must have been computed.
        after = [self.freed[place - 2]] if 2 <= place <= len(self.freed) + 1 else []
        if place == 0 or not spec.prefetch:
            after = tape.pending_main()  # parameters of the last optimizer step, or no prefetch
        self.gathered[place] = tape.call(
            ("gather", self.group, tape.step, place),
            "copy_gather" if spec.gather == "copy_engine" else "_allgather_base",
            self.group,
            "dp",
            spec.transfer_ns,
            stream=GATHER_STREAM,
            backward=backward,
            after=after,
        )

    def _scatter(self, batch: int, layer: int) -> None:
        self.scattered.append(
            self.tape.call(
                ("scatter", self.group, self.tape.step, batch, layer),
                "_reduce_scatter_base",
                self.group,
                "dp",
                self.spec.transfer_ns,
                stream=SCATTER_STREAM,
                backward=True,
            )
        )


BETWEEN_STEPS_NS = 5_000
FIRST_STEP = 10
"""Number of the first step."""


def run_job(spec: JobSpec) -> tuple[Simulation, list[Tape]]:
    """Simulate a job; times are on the true clock, which begins at 0."""
    job, load = Simulation(spec), Workload(spec)
    tapes = [Tape(job, rank) for rank in range(spec.world_size)]
    for tape in tapes:
        program = ShardedStep if spec.family == "fsdp" else ReplicatedStep
        steps = program(tape, load)
        for step in range(spec.steps):
            tape.begin("step")
            steps.record(step)
            tape.end()
            tape.busy("", BETWEEN_STEPS_NS)
    evaluate(job)
    return job, tapes


def step_time_ns(job: Simulation) -> float:
    """Mean time of a step: from the start of the hosts to the end of all work, over the steps."""
    return max(op.end_ns for op in job.ops) / job.spec.steps


def step_times_ns(job: Simulation) -> list[int]:
    """Time of each step: from the end of all work of the steps before to that of its own."""
    ends = [0] * (job.spec.steps + 1)
    for op in job.ops:
        ends[op.step + 1] = max(ends[op.step + 1], op.end_ns)
    reached = list(accumulate(ends, max))
    return [end - begin for begin, end in pairwise(reached)]
