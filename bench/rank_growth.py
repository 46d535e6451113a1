"""Measure how each step of ``--metric all`` grows with the number of ranks, in time and in loops.

A step is the opening, the groups, the calls, the matching with the clocks, the arrivals, and every
metric, in the order of ``--metric all``: each finds what those before it left in the view.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

Shape = Literal["world", "eights"]
"""All collectives on one group of all ranks, or nearly all on groups of eight."""

LEAST_S: Final = 0.05
"""CPU time at the largest size below which a step has no exponent: it is noise."""

_Cost = TypeVar("_Cost")
Measure = Callable[[Callable[[], object]], _Cost]


class StepCost(Struct, frozen=True):
    """Cost of one step at each number of ranks, in CPU-s or in loops."""

    name: str
    costs: Mapping[int, float]

    @property
    def exponent(self) -> float:
        """Exponent p of cost = c * ranks^p between the smallest and the largest number of ranks."""
        few, many = min(self.costs), max(self.costs)
        return math.log(self.costs[many] / self.costs[few]) / math.log(many / few)


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of a function, s."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def lines_run(work: Callable[[], object]) -> Counter[str]:
    """Number of lines of Python that run, by function, each pass of a loop counted.

    The same in every run, unlike a time. Loops inside of numpy are not counted.
    """
    count: Counter[str] = Counter()

    def on_line(frame: FrameType, event: str, arg: object) -> Any:
        del arg
        if event == "line":
            code = frame.f_code
            count[f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"] += 1
        return on_line

    before = sys.gettrace()
    sys.settrace(on_line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def superlinear(few: Counter[str], many: Counter[str], times: int) -> list[str]:
    """Return functions that run more than ``times`` as often, half as much again left for sorting.

    Args:
        few: Lines that a step runs, of `lines_run`.
        many: The same with ``times`` as many ranks.
        times: How many times as many.
    """
    least = 64 * times  # below that nothing is said about growth
    return [
        f"{name}: {few[name]} lines, then {count}"
        for name, count in many.items()
        if count > least and count > 1.5 * times * max(few[name], least // times)
    ]


def cost_of_steps(directory: Path, cache: Path, measure: Measure[_Cost]) -> dict[str, _Cost]:
    """Return the cost of every step of ``--metric all`` for one directory, in order.

    As the command does, metrics are told which others follow. Jobs of every size are worked on as
    large ones, whose ranks are released: where a small one keeps what a large one computes again,
    the exponents would be those of the change from one to the other.
    """
    from ccltui.metrics import registry  # noqa: PLC0415  (the measuring process stays small)
    from ccltui.metrics.metric import Metric, expect  # noqa: PLC0415
    from ccltui.metrics.view.job_view import View  # noqa: PLC0415
    from ccltui.parsers.job import Job, open_job  # noqa: PLC0415

    found: dict[str, _Cost] = {}
    opened: list[Job] = []
    metrics = [metric for metric in registry.metrics().values() if metric.in_all]
    found["open"] = measure(lambda: opened.append(open_job(directory, cache_dir=cache)))
    view = View(opened[0])
    view.facts.is_large = True

    def run(metric: Metric) -> None:
        expect(view, metrics[metrics.index(metric) :])
        metric.run(view)

    steps: dict[str, Callable[[], object]] = {
        "calls and groups": lambda: view.facts.named_calls,
        "matching and clocks": lambda: view.matches,
        "arrivals": lambda: view.arrivals,
        **{metric.name: lambda metric=metric: run(metric) for metric in metrics},  # type: ignore[misc]
    }
    for name, step in steps.items():
        found[name] = measure(step)
    return found


def by_step(costs: Mapping[int, Mapping[str, float]]) -> list[StepCost]:
    """Return the cost of each step over the numbers of ranks, from ``cost_of_steps`` of each."""
    names = next(iter(costs.values()))
    return [StepCost(name, {n: max(of[name], 1e-9) for n, of in costs.items()}) for name in names]


def exponents_text(shape: str, steps: Sequence[StepCost]) -> str:
    """Table of steps that cost ``LEAST_S`` or more at the largest size, the largest first."""
    counts = list(steps[0].costs)
    largest = counts[-1]
    shown = sorted(steps, key=lambda step: -step.costs[largest])
    lines = [
        f"CPU-s by step and ranks, {shape}",
        f"  {'step':24}" + "".join(f"{count:>10}" for count in counts) + "  exponent",
    ]
    for step in shown:
        if step.costs[largest] >= LEAST_S:
            row = "".join(f"{cost:10.3f}" for cost in step.costs.values())
            lines.append(f"  {step.name:24}{row}{step.exponent:10.2f}")
    return "\n".join(lines) + "\n"
