"""Training step of fully sharded data parallelism with prefetched all-gathers."""

from __future__ import annotations

from typing import Final

from ccltui.demo.planted.event_graph import Op
from ccltui.demo.planted.host_pauses import HostPauses
from ccltui.demo.planted.layers import Layers
from ccltui.demo.planted.replicated_step import INPUT_NS, finish
from ccltui.demo.planted.tape import MAIN, Tape
from ccltui.demo.planted.workload import Workload

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
        self.gathered: dict[int, Op] = {}  # by place in the sequence of layers of a step
        self.freed: list[Op] = []  # last kernel of each layer so far
        self.scattered: list[Op] = []

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
