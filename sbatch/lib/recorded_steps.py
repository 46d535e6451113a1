"""Let nsys record whole training steps: it waits for the calls of cudaProfilerApi made here.

A delay in seconds cuts steps in two and misses a short job; a torchtitan without its profiler
counts no steps either. So steps are counted by the optimizer, and each gets an NVTX range.
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
    """Steps from ``11-15``. Raises ValueError that says what is expected."""
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
        """Before the first step."""
        self._begin_step()

    def after_step(self, optimizer: object, *_: object) -> None:
        """An optimizer has made its step."""
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
    """From here on the steps that ``text`` names are recorded, where there is a GPU."""
    import torch  # noqa: PLC0415  (what counts steps needs none)
    from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: PLC0415

    recorder = StepRecorder(parse_steps(text), torch.cuda)
    if torch.cuda.is_available():
        recorder.begin()
        register_optimizer_step_post_hook(recorder.after_step)
