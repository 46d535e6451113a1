"""Two runs, or two sets of repeated runs, number by number: difference, spread and verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from metrics.runs.comparable import OF_BACKWARDS, OF_UPDATES, Comparability, comparability
from metrics.runs.figures import loss, step_times, throughput
from metrics.runs.nccl_calls import nccl_calls
from metrics.runs.run import Run
from metrics.runs.run_step_time import caveat
from metrics.runs.spread import Sample, half_width, parts_of

Verdict = Literal["better", "worse", "not distinguishable", "not comparable", ""]

NOISE_PCT: Final = 5.0
"""What one value a side may scatter, where nothing tells how much it does: an assumption."""
_PARTS: Final = 10
_LEAST_STEPS: Final = 5 * _PARTS


@dataclass(frozen=True, slots=True)
class Row:
    """One number of both sides; None where a side does not have it.

    ``half_width`` is half of the 95 % interval of the difference, None where it is assumed.
    """

    name: str
    unit: str
    a: float | None
    b: float | None
    verdict: Verdict
    note: str
    higher_is_better: bool
    half_width: float | None = None
    spread: str = ""

    @property
    def delta(self) -> float | None:
        """B minus A."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def delta_pct(self) -> float | None:
        """B against A in percent, None where A is 0."""
        return None if self.delta is None or not self.a else 100 * self.delta / abs(self.a)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome. ``a`` and ``b`` name what was compared, ``remarks`` is what else is to be said.

    Of ``ranked`` rows the first that both sides have gives the verdict; where no row matters
    more than another, one that is worse makes the whole worse.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    comparability: Comparability
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()
    ranked: bool = True

    @property
    def leading(self) -> Row | None:
        """The row that gives the verdict, None where all count alike or none is there."""
        found = (row for row in self.rows if row.delta is not None)
        return next(found, None) if self.ranked else None

    @property
    def verdict(self) -> Verdict:
        """Of A and B as a whole."""
        if self.comparability.verdict == "not comparable":
            return "not comparable"
        if self.ranked:
            return "not comparable" if self.leading is None else self.leading.verdict
        found = {row.verdict for row in self.rows}
        order: tuple[Verdict, ...] = ("worse", "better", "not distinguishable")
        return next((one for one in order if one in found), "not comparable")

    @property
    def why(self) -> str:
        """Why they are not comparable, else what differs beside the numbers."""
        parts = [self.comparability.why_not]
        parts += [check.sentence for check in self.comparability.stated]
        if self.comparability.unknown:
            names = ", ".join(check.name for check in self.comparability.unknown)
            parts.append(f"told by one of them or none: {names}")
        parts += self.remarks
        return "; ".join(part for part in parts if part)


def compare(a: Sequence[Run], b: Sequence[Run], *, noise_pct: float = NOISE_PCT) -> Comparison:
    """Compare runs; several on a side are repetitions of one another."""
    found = comparability(a[0], b[0])
    rows = [_row(figure, a, b, found, noise_pct) for figure in (*_FIGURES, *_calls_of((*a, *b)))]
    told = [row for row in rows if row.a is not None or row.b is not None]
    return Comparison(
        a=tuple(run.name for run in a),
        b=tuple(run.name for run in b),
        comparability=found,
        rows=tuple(told),
        remarks=tuple(_remarks(a, b)),
    )


def _remarks(a: Sequence[Run], b: Sequence[Run]) -> Iterator[str]:
    if any(run.profiled for run in (*a, *b)):
        yield "nsys was recording: throughput and times are no evidence"
    for side, runs in (("A", a), ("B", b)):
        for run in runs:
            yield from (f"{side}: {problem}" for problem in run.problems)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A number of a run, and its values in the course of one run where there are several."""

    name: str
    unit: str
    of: Callable[[Run], float | None]
    higher_is_better: bool = False
    within: Callable[[Run], Sample | None] = lambda _: None
    doubt: Callable[[Run], str] = lambda _: ""
    rests_on: frozenset[str] | None = None  # a count that does not depend on the rest

    def why_not(self, found: Comparability) -> str:
        """Why this number is not comparable, "" where it is."""
        return found.why_not if self.rests_on is None else found.why_not_in(self.rests_on)


def _rate(run: Run) -> float | None:
    found = throughput(run)
    return None if found is None else found.tokens_per_s


def _rates_within(run: Run) -> Sample | None:
    """Throughput of ten parts of a run, else of its epochs."""
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
    def tell(run: Run) -> float | None:
        times = step_times(run)
        seconds = None if times is None else getattr(times, name)
        return None if seconds is None else 1000 * float(seconds)

    return tell


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
    return "" if times is None else caveat(times)


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


_FIGURES: Final = (
    _Figure("throughput", "tokens/s", _rate, higher_is_better=True, within=_rates_within),
    _Figure("total wall", "s", _wall),
    _Figure("step_time_mean", "ms", _time("mean_s"), within=_times_within, doubt=_time_doubt),
    _Figure("step_time_p50", "ms", _time("p50_s"), within=_times_within, doubt=_time_doubt),
    _Figure("step_time_p95", "ms", _time("p95_s"), doubt=_time_doubt),
    _Figure("train loss", "nats", _train_loss),
    _Figure("val loss", "nats", _val_loss),
    _Figure("device memory", "bytes", _memory),
)


def _calls_of(runs: Sequence[Run]) -> list[_Figure]:
    """Calls of every operation of NCCL that any run made, per backward pass and per update."""
    names: dict[str, None] = {}
    for run in runs:
        calls = nccl_calls(run)
        names.update(dict.fromkeys(calls.instances if calls is not None else ()))
    figures = [
        _Figure(f"{name} per backward", "calls", _per_backward(name), rests_on=OF_BACKWARDS)
        for name in names
    ]
    if "AllReduce" in names:
        name = "AllReduce per optimizer step"
        figures.append(_Figure(name, "calls", _per_update("AllReduce"), rests_on=OF_UPDATES))
    return figures


def _per_backward(operation: str) -> Callable[[Run], float | None]:
    def tell(run: Run) -> float | None:
        calls = nccl_calls(run)
        return None if calls is None else calls.per_backward(operation)

    return tell


def _per_update(operation: str) -> Callable[[Run], float | None]:
    def tell(run: Run) -> float | None:
        each, accumulation = _per_backward(operation)(run), run.configuration.grad_accum
        return None if each is None or accumulation is None else each * accumulation

    return tell


def _row(
    figure: _Figure, a: Sequence[Run], b: Sequence[Run], found: Comparability, noise_pct: float
) -> Row:
    sample_a, sample_b = _sample(figure, a), _sample(figure, b)
    half, spread = None, ""
    if sample_a is not None and sample_b is not None and figure.rests_on is None:
        half = half_width(sample_a, sample_b)
        sides = [f"{len(s.values)} {s.what}" for s in (sample_a, sample_b)]
        spread = " against ".join(dict.fromkeys(sides)) if half is not None else ""
    row = Row(
        name=figure.name,
        unit=figure.unit,
        a=_mean(figure, a),
        b=_mean(figure, b),
        verdict="",
        note="",
        higher_is_better=figure.higher_is_better,
        half_width=half,
        spread=spread,
    )
    doubts = [figure.doubt(runs[0]) for runs in (a, b)]
    verdict, note = _verdict(row, figure, doubts, figure.why_not(found), noise_pct)
    return replace(row, verdict=verdict, note=note)


def _mean(figure: _Figure, runs: Sequence[Run]) -> float | None:
    known = [value for run in runs if (value := figure.of(run)) is not None]
    return sum(known) / len(known) if known else None


def _sample(figure: _Figure, runs: Sequence[Run]) -> Sample | None:
    """Values of the repetitions; of a single run those in its course, or its one value."""
    known = [value for run in runs if (value := figure.of(run)) is not None]
    if len(known) > 1:
        return Sample(tuple(known), "runs")
    within = figure.within(runs[0])
    return within or (Sample(tuple(known), "run") if known else None)


def _verdict(
    row: Row, figure: _Figure, doubts: Sequence[str], why_not: str, noise_pct: float
) -> tuple[Verdict, str]:
    if row.delta is None or row.a is None:
        return "not comparable", f"not told by {'A' if row.a is None else 'B'}"
    if why_not:
        return "not comparable", why_not
    if any(doubts):
        return "not comparable", _both(doubts)
    if figure.rests_on is not None:
        return direction(row), "calls of the profiled node over its backward passes"
    if row.half_width is not None:
        return beyond(row, row.half_width), f"difference ±{row.half_width:.3g} {row.unit} (95 %)"
    return beyond(row, noise_pct / 100 * abs(row.a)), assumed(noise_pct)


def _both(doubts: Sequence[str]) -> str:
    if len(set(doubts)) == 1:
        return f"both: {doubts[0]}"
    return "; ".join(f"{side}: {text}" for side, text in zip("AB", doubts, strict=True) if text)


def assumed(noise_pct: float) -> str:
    """What is said where nothing tells how much a value scatters."""
    return f"one value a side: its spread is not known, {noise_pct:g} % is assumed"


def beyond(row: Row, limit: float) -> Verdict:
    """Better or worse where the difference exceeds a limit."""
    return direction(row) if abs(row.delta or 0.0) > limit else "not distinguishable"


def direction(row: Row) -> Verdict:
    """Better or worse by the sign of the difference."""
    if not row.delta:
        return "not distinguishable"
    return "better" if (row.delta > 0) == row.higher_is_better else "worse"
