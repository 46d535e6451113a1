"""Measure the duration of micro-steps without synchronising the device after each."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch


class StepClock:
    """Marks at the ends of micro-steps, read when the device is idle anyway.

    On CUDA the marks are events on the stream, so that a step lasts until its work is done and
    the steps of an epoch add up to its time on the device.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = [self._mark()]

    def _mark(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def step(self) -> None:
        """Mark the end of a micro-step that was submitted to the device."""
        self._marks.append(self._mark())

    def drain(self) -> list[float]:
        """Wait for the last micro-step; return the seconds of each since the last call."""
        marks = self._marks
        if self._cuda:
            marks[-1].synchronize()
            seconds = [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks)]
        else:
            seconds = [b - a for a, b in pairwise(marks)]
        self._marks = marks[-1:]
        return seconds
