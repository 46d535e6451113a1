"""Pauses of the host: data, garbage collection, checkpoints, allocation, synchronisation."""

from __future__ import annotations

from typing import Final

from ccltui.demo.planted.job_spec import Fault, FaultKind
from ccltui.demo.planted.tape import COPY, Tape

LOADING_NS: Final = 250_000
"""Wait of every rank for its next batch."""

LOADING: Final = (
    "user_annotation",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
)
COLLECTING: Final = (
    "python_function",
    "<built-in method collect of module object at 0x7f31c8a2d6b0>",
)
SAVING: Final = ("user_annotation", "save_checkpoint")
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
        self.tape.busy(*LOADING, LOADING_NS + (0 if silent else extra_ns))
        if silent:
            self.tape.busy("", "", extra_ns)

    def in_forward(self, batch: int, layer: int) -> None:
        """Pause the main thread inside a forward pass."""
        tape = self.tape
        # The place in the step differs by step and rank, as that of a collection does.
        chosen = (tape.step * 7 + tape.rank * 3) % self.spec.micro_batches
        if batch == chosen and layer == 0:
            for fault in self._acting("garbage_collection"):
                name = ("", "") if fault.silent else COLLECTING
                tape.busy(*name, fault.extra_ns)
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
                tape.begin(*SAVING)
            for _ in range(COPIES_OF_CHECKPOINT):
                share_ns = fault.extra_ns // (2 * COPIES_OF_CHECKPOINT)
                tape.work("copy_out", share_ns, stream=COPY, vary=False)
            tape.sync()
            tape.busy("", "", fault.extra_ns // 2)
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
            name = ("", "") if fault.silent else ("cuda_runtime", "cudaMalloc")
            tape.busy(*name, fault.extra_ns // places, backward=backward)
        for fault in self._acting("synchronisation"):
            tape.sync(main_only=True)
            tape.busy("", "", fault.extra_ns // places, backward=backward)

    def _acting(self, kind: FaultKind) -> list[Fault]:
        return [
            fault
            for fault in self.spec.faults
            if fault.kind == kind and fault.acts(self.tape.rank, self.tape.step)
        ]
