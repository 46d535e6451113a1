"""Work of one pass through a model chunk: kernels, collectives, and the pauses of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ccltui.demo.planted.job_spec import Fault, FaultKind, Workload
from ccltui.demo.planted.tape import COPY, SIDE, Call, Tape

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
