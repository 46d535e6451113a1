"""Sizes of the work of a job: weights of stages, workers, micro-batches and experts."""

from __future__ import annotations

import random
from typing import Final

from ccltui.demo.planted.job_spec import Fault, JobSpec

FIXED_FORWARD: Final = 0.6
"""Share of a forward pass that does not grow with the work of its micro-batch."""
FIXED_BACKWARD: Final = 0.5
HEAVY_BACKWARD: Final = 0.6
"""Excess of a heavy stage in backward passes, in excesses of forward ones."""
ALL_STAGES: Final = -1
"""Stage of a ``heavy_stage`` fault that makes all stages heavier, for the same work shared out."""
SLOW: Final = ("slow_worker", "occasional_worker", "slow_node", "alternating")
RARE: Final = 0.03
"""Probability that a pass is prolonged by the fault ``random``."""


class Workload:
    """Factors of the durations of passes, the same for a job with and without its faults."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self._lengths = self._drawn_lengths()

    def _faults(self, kind: str) -> list[Fault]:
        return [fault for fault in self.spec.faults if fault.kind == kind]

    def _drawn_lengths(self) -> dict[tuple[int, int, int], float]:
        """Work of each micro-batch by (step, data-parallel index, micro-batch), 1 on average."""
        spec = self.spec
        sigma = sum(fault.factor for fault in self._faults("uneven_microbatches"))
        chance = random.Random(f"{spec.seed}/lengths")
        drawn = {
            (step, dp, batch): chance.lognormvariate(0, sigma) if sigma else 1.0
            for step in range(spec.steps)
            for dp in range(spec.dp)
            for batch in range(spec.micro_batches)
        }
        mean = sum(drawn.values()) / len(drawn)
        return {key: value / mean for key, value in drawn.items()}

    def forward(self, rank: int, step: int, batch: int) -> float:
        """Factor of a forward pass, without variation."""
        length = FIXED_FORWARD + (1 - FIXED_FORWARD) * self._length(rank, step, batch)
        return length * self._worker(rank, step) * self._stage(rank, 1.0)

    def backward(self, rank: int, step: int, batch: int) -> float:
        """Factor of a backward pass, without variation."""
        length = FIXED_BACKWARD + (1 - FIXED_BACKWARD) * self._length(rank, step, batch)
        return length * self._worker(rank, step) * self._stage(rank, HEAVY_BACKWARD)

    def rare(self, rank: int, step: int, batch: int, chunk: int, *, backward: bool) -> float:
        """Factor of the fault ``random``, drawn for each pass on its own."""
        faults = self._faults("random")
        if not faults:
            return 1.0
        chance = random.Random(f"{self.spec.seed}/rare/{rank}/{step}/{batch}/{chunk}/{backward}")
        return faults[0].factor if chance.random() < RARE else 1.0

    def logits(self, rank: int) -> float:
        """Extra kernel at the end of a forward pass of a heavy last stage, in forward passes."""
        stage = self.spec.place(rank)[0]
        return sum(
            fault.factor - 1
            for fault in self._faults("heavy_stage")
            if fault.stage == stage == self.spec.pp - 1
        )

    def experts(self, ranks: tuple[int, ...], key: str, step: int) -> list[float]:
        """Load of the experts of each rank of a group, 1 on average."""
        chance = random.Random(f"{self.spec.seed}/experts/{key}")
        loads = [max(0.1, 1 + chance.gauss(0, self.spec.expert_jitter)) for _ in ranks]
        for fault in self._faults("uneven_experts"):
            # How many tokens a popular expert is sent differs from layer to layer.
            excess = (fault.factor - 1) * chance.uniform(0.4, 1.6)
            for place, rank in enumerate(ranks):
                loads[place] *= 1 + excess if fault.acts(rank, step) else 1.0
        mean = sum(loads) / len(loads)
        return [load / mean for load in loads]

    def _length(self, rank: int, step: int, batch: int) -> float:
        return self._lengths[step, self.spec.place(rank)[1], batch]

    def _worker(self, rank: int, step: int) -> float:
        factor = 1.0
        for fault in self.spec.faults:
            slow = fault.kind in SLOW
            if slow and fault.acts(rank, step):
                factor *= fault.factor
        return factor

    def _stage(self, rank: int, share: float) -> float:
        """Factor of a heavy stage; a heavy last one has more kernels in its forward passes."""
        stage, factor = self.spec.place(rank)[0], 1.0
        for fault in self._faults("heavy_stage"):
            logits = fault.stage == stage == self.spec.pp - 1 and share == 1.0
            if fault.stage in (stage, ALL_STAGES) and not logits:
                factor *= 1 + (fault.factor - 1) * share
        return factor
