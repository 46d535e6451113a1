"""Numbers of runs to compare, with samples that show their spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ccltui.metrics.compare.comparable import OF_BACKWARDS, OF_UPDATES, Comparability
from ccltui.metrics.compare.spread import Sample, parts_of
from ccltui.metrics.runs.key_figures import loss, step_times, throughput
from ccltui.metrics.runs.nccl_calls import nccl_calls
from ccltui.metrics.runs.run_files import Run

_PARTS: Final = 10
_LEAST_STEPS: Final = 5 * _PARTS
RUNS: Final = "runs"
"""What the values of a sample are where they are of several runs."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a run, with its values during one run where there are several.

    Attributes:
        name: name of the number.
        unit: its unit.
        of: returns the number of a run, None where unknown.
        higher_is_better: whether a higher value is better.
        within: returns several values from one run, None where there are none.
        doubt: returns why the number of a run is unreliable, "" where it is not.
        depends_on: the only properties that the number depends on; None for all.
        must_be_known: properties without which the numbers of two runs say nothing: a run of twice
            the steps takes twice the time.
    """

    name: str
    unit: str
    of: Callable[[Run], float | None]
    higher_is_better: bool = False
    within: Callable[[Run], Sample | None] = lambda _: None
    doubt: Callable[[Run], str] = lambda _: ""
    depends_on: frozenset[str] | None = None
    must_be_known: frozenset[str] = frozenset()

    def why_not(self, found: Comparability) -> str:
        """Return why this number is not comparable, "" where it is."""
        return found.why_not if self.depends_on is None else found.why_not_in(self.depends_on)

    def mean(self, runs: Sequence[Run]) -> float | None:
        """Return the mean over the runs that have the number, None where none has."""
        known = self._known(runs)
        return sum(known) / len(known) if known else None

    def samples(self, a: Sequence[Run], b: Sequence[Run]) -> tuple[Sample | None, Sample | None]:
        """Return the values of both sides: of their runs where a side has several.

        Else those over time of each run: a side of one run has the spread of the other's runs then,
        not that of its own parts, which is another thing.
        """
        sides = [self._known(runs) for runs in (a, b)]
        if max(map(len, sides)) > 1:
            first, second = (Sample(tuple(one), RUNS) if one else None for one in sides)
        else:
            first, second = (
                self.within(runs[0]) or (Sample(tuple(one), "run") if one else None)
                for runs, one in zip((a, b), sides, strict=True)
            )
        return first, second

    def _known(self, runs: Sequence[Run]) -> list[float]:
        return [value for run in runs if (value := self.of(run)) is not None]


def _rate(run: Run) -> float | None:
    found = throughput(run)
    return None if found is None else found.tokens_per_s


def _rates_within(run: Run) -> Sample | None:
    """Throughput of ten consecutive parts of a run, else of its epochs."""
    steps = run.steps
    if steps is not None:
        usable = np.isfinite(steps.time_s) & (steps.time_s > 0) & (steps.tokens > 0)
        if np.count_nonzero(usable) >= _LEAST_STEPS:
            times = parts_of(steps.time_s[usable].tolist(), _PARTS)
            tokens = parts_of(steps.tokens[usable].tolist(), _PARTS)
            rates = tuple(n / s for n, s in zip(tokens, times, strict=True))
            return Sample(rates, "tenths of the run")
    found = throughput(run)
    known = [] if found is None else [rate for rate in found.per_epoch if rate is not None]
    return Sample(tuple(known), "epochs") if len(known) > 1 else None


def _time(name: str) -> Callable[[Run], float | None]:
    def value(run: Run) -> float | None:
        times = step_times(run)
        seconds = None if times is None else getattr(times, name)
        return None if seconds is None else 1000 * float(seconds)

    return value


def _times_within(run: Run) -> Sample | None:
    if run.steps is None:
        return None
    times = run.steps.time_s[np.isfinite(run.steps.time_s)]
    if len(times) < _LEAST_STEPS:
        return None
    parts = parts_of((1000 * times).tolist(), _PARTS)
    return Sample(parts, "tenths of the run")


def _time_doubt(run: Run) -> str:
    times = step_times(run)
    return "" if times is None else times.caveat


def _wall(run: Run) -> float | None:
    stated = None if run.metrics is None else run.metrics.total_wall_s
    if stated is None and run.completion is not None:
        return run.completion.total_wall_s
    return stated


def _train_loss(run: Run) -> float | None:
    found = loss(run)
    return None if found is None else found.last_train


def _val_loss(run: Run) -> float | None:
    found = loss(run)
    return None if found is None else found.best_val


def _memory(run: Run) -> float | None:
    epochs = () if run.metrics is None else run.metrics.epochs
    known = [e.memory_allocated_bytes for e in epochs if e.memory_allocated_bytes]
    return max(known, default=None)


_WORK: Final = frozenset({"model", "micro_batch"})
_LENGTH: Final = _WORK | {"steps"}

FIGURES: Final = (
    Figure(
        "throughput",
        "tokens/s",
        _rate,
        higher_is_better=True,
        within=_rates_within,
        must_be_known=_WORK,
    ),
    Figure("total wall", "s", _wall, must_be_known=_LENGTH),
    *(
        Figure(
            f"step_time_{name}",
            "ms",
            _time(f"{name}_s"),
            within=_times_within if name != "p95" else lambda _: None,
            doubt=_time_doubt,
            must_be_known=_WORK,
        )
        for name in ("mean", "p50", "p95")
    ),
    Figure("train loss", "nats", _train_loss, must_be_known=_LENGTH),
    Figure("val loss", "nats", _val_loss, must_be_known=_LENGTH),
    Figure("device memory", "bytes", _memory, must_be_known=_WORK),
)


def calls_of(runs: Sequence[Run]) -> list[Figure]:
    """Return the calls of each NCCL operation, per backward pass and per optimizer step."""
    names: dict[str, None] = {}
    for run in runs:
        calls = nccl_calls(run)
        names.update(dict.fromkeys(calls.instances if calls is not None else ()))
    figures = [
        Figure(f"{name} per backward", "calls", _per_backward(name), depends_on=OF_BACKWARDS)
        for name in names
    ]
    if "AllReduce" in names:
        name = "AllReduce per optimizer step"
        figures.append(Figure(name, "calls", _per_update("AllReduce"), depends_on=OF_UPDATES))
    return figures


def _per_backward(operation: str) -> Callable[[Run], float | None]:
    def value(run: Run) -> float | None:
        calls = nccl_calls(run)
        return None if calls is None else calls.per_backward(operation)

    return value


def _per_update(operation: str) -> Callable[[Run], float | None]:
    def value(run: Run) -> float | None:
        each, accumulation = _per_backward(operation)(run), run.configuration.grad_accum
        return None if each is None or accumulation is None else each * accumulation

    return value
