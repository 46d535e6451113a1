"""Record whole training steps with nsys, by calls of cudaProfilerApi.

nsys waits for these calls, because a delay in seconds cuts steps in two and misses a short job. A
torchtitan without its profiler counts no steps, so steps are counted by the optimizer; each gets an
NVTX range.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Steps:
    """The first and the last step to record, counted from 1."""

    first: int
    last: int


def parse_steps(text: str) -> Steps:
    """Parse steps such as ``11-15``. Raises ValueError with the expected form."""
    match = re.fullmatch(r"([1-9]\d{0,8})-([1-9]\d{0,8})", text)
    if match is None or int(match[1]) > int(match[2]):
        raise ValueError(f"NSYS_STEPS is {text!r}, not FIRST-LAST as in 11-15")
    return Steps(int(match[1]), int(match[2]))


class StepRecorder:
    """Counts the steps of the first optimizer that takes one; a pipeline stage may have several."""

    def __init__(self, steps: Steps, device: Any) -> None:
        self.steps = steps
        self.device = device  # torch.cuda, or what stands in for it
        self.done = 0
        self.counted: int | None = None

    def begin(self) -> None:
        """Start before the first step."""
        self._begin_step()

    def after_step(self, optimizer: object, *_: object) -> None:
        """Count a step of an optimizer."""
        if self.counted is None:
            self.counted = id(optimizer)
        if id(optimizer) != self.counted:
            return
        self.done += 1
        self.device.nvtx.range_pop()
        if self.done == self.steps.last:
            self.device.synchronize()
            self.device.profiler.stop()
        self._begin_step()

    def _begin_step(self) -> None:
        if self.done + 1 == self.steps.first:
            self.device.synchronize()
            self.device.profiler.start()
        self.device.nvtx.range_push(f"step {self.done + 1}")


def record_steps(text: str) -> None:
    """Start recording the steps named by ``text``, if there is a GPU."""
    import torch  # noqa: PLC0415  (what counts steps needs none)
    from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: PLC0415

    recorder = StepRecorder(parse_steps(text), torch.cuda)
    if torch.cuda.is_available():
        recorder.begin()
        register_optimizer_step_post_hook(recorder.after_step)
