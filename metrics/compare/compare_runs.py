"""Compare two runs, or two sets of repeated runs: difference, spread and verdict of each number.

The spread within a run, over its steps, does not hold what differs from run to run: nodes, network,
clocks of the devices, other jobs. It is known from several runs of a side, or stated by the user.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.compare.comparable import OF_BACKWARDS, OF_UPDATES, Comparability, comparability
from ccltui.metrics.runs.key_figures import loss, step_times, throughput
from ccltui.metrics.runs.nccl_calls import nccl_calls
from ccltui.metrics.runs.run_files import Run

# Two-sided 95 % quantiles of Student's t by degrees of freedom (NIST/SEMATECH handbook, 1.3.6.7.2).
_T95: Final = (
    (1, 12.706),
    (2, 4.303),
    (3, 3.182),
    (4, 2.776),
    (5, 2.571),
    (6, 2.447),
    (7, 2.365),
    (8, 2.306),
    (9, 2.262),
    (10, 2.228),
    (12, 2.179),
    (15, 2.131),
    (20, 2.086),
    (30, 2.042),
    (60, 2.000),
)
_T95_OF_MANY: Final = 1.960


class Sample(Struct, frozen=True):
    """Values of one side; ``what`` names one value in the plural, such as "runs"."""

    values: tuple[float, ...]
    what: str

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return math.fsum(self.values) / len(self.values)

    @property
    def std(self) -> float | None:
        """Sample standard deviation (n - 1), None of one value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def half_width(a: Sample, b: Sample) -> float | None:
    """Return half of the 95 % interval of the difference of two means (Welch).

    A side with one value is assumed to have the standard deviation of the other side. None where
    both sides have one value.
    """
    if a.std is None and b.std is None:
        return None
    std_a = a.std if a.std is not None else b.std or 0.0
    std_b = b.std if b.std is not None else a.std or 0.0
    parts = [std_a**2 / len(a.values), std_b**2 / len(b.values)]
    error = math.sqrt(sum(parts))
    if error == 0:
        return 0.0
    counts = [max(len(side.values) - 1, 0) for side in (a, b)]
    weights = [part**2 / count for part, count in zip(parts, counts, strict=True) if count]
    has_single_value = not all(counts)
    # The variance of a single value is unknown: use the degrees of freedom of the other side.
    freedom = (
        max(counts) if has_single_value else sum(parts) ** 2 / sum(weights) if sum(weights) else 1
    )
    return t95(freedom) * error


def t95(freedom: float) -> float:
    """Return the two-sided 95 % quantile of Student's t.

    Between tabulated degrees of freedom the quantile of the next smaller number is returned.
    """
    fitting = [value for degrees, value in _T95 if degrees <= freedom + 1e-9]
    return _T95_OF_MANY if freedom >= 1000 else fitting[-1] if fitting else _T95[0][1]


def parts_of(values: Sequence[float], count: int) -> tuple[float, ...]:
    """Return the means of ``count`` consecutive parts of equal length.

    Consecutive values are not independent repetitions; means of long parts nearly are. All values
    are returned where there are fewer than ``count``.
    """
    size = len(values) // count
    if not size:
        return tuple(values)
    return tuple(math.fsum(values[i * size : (i + 1) * size]) / size for i in range(count))


INDISTINCT: Final = "not distinguishable from noise between runs"
ADVICE: Final = (
    "name more runs of each side (--also-a, --also-b), or state by how much two runs of one "
    "command differ (--runs-vary PCT)"
)
ONE_RUN: Final = f"one run a side, so the spread between runs is unknown: {ADVICE}"
"""Why a difference of two single runs is called neither better nor worse."""


def stated(runs_vary_pct: float) -> str:
    """Return the note on a difference that is judged by the spread that the user stated."""
    return f"runs of one command vary by {runs_vary_pct:g} %, as stated by --runs-vary"


def limit_of(value: float | None, runs_vary_pct: float | None) -> float | None:
    """Return the stated spread in the unit of ``value``, None where none is stated."""
    return None if value is None or runs_vary_pct is None else runs_vary_pct / 100 * abs(value)


_PARTS: Final = 10
_LEAST_STEPS: Final = 5 * _PARTS
RUNS: Final = "runs"
"""What the values of a sample are where they are of several runs."""


class Figure(Struct, frozen=True):
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


Verdict = Literal["better", "worse", "not distinguishable", "not comparable", ""]


class Row(Struct, frozen=True):
    """One number of both sides, None where a side does not have it.

    ``half_width`` is half of the 95 % interval of the difference, of runs where a side has several,
    else of the parts of each run; None where no spread is known.
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
        """B minus A in percent of A, None where A is 0."""
        return None if self.delta is None or not self.a else 100 * self.delta / abs(self.a)


class Comparison(Struct, frozen=True):
    """Result of a comparison.

    Where rows are ``ranked``, the first that both sides have gives the verdict. Otherwise all rows
    are equally important, and one that is worse makes the verdict worse.

    Attributes:
        a: names of the runs or the benchmark of the first side.
        b: names of the runs or the benchmark of the second side.
        comparability: checks of the properties of both sides.
        rows: the numbers.
        remarks: further remarks.
        ranked: whether rows are in order of importance.
        runs_vary_pct: spread between runs in percent that the user stated, None for none.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    comparability: Comparability
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()
    ranked: bool = True
    runs_vary_pct: float | None = None

    @property
    def is_unjudged(self) -> bool:
        """Whether each side is one run, and the spread between runs is not stated."""
        return len(self.a) == len(self.b) == 1 and self.runs_vary_pct is None

    @property
    def verdict_text(self) -> str:
        """The verdict in words, which say where the spread between runs is unknown."""
        if self.verdict == "not distinguishable" and self.is_unjudged:
            return INDISTINCT
        return self.verdict

    @property
    def leading(self) -> Row | None:
        """The row that gives the verdict, None for unranked rows or without a common number."""
        found = (row for row in self.rows if row.delta is not None)
        return next(found, None) if self.ranked else None

    @property
    def verdict(self) -> Verdict:
        """Verdict on B compared with A as a whole."""
        if self.comparability.verdict == "not comparable":
            return "not comparable"
        if self.ranked:
            return "not comparable" if self.leading is None else self.leading.verdict
        found = {row.verdict for row in self.rows}
        order: tuple[Verdict, ...] = ("worse", "better", "not distinguishable")
        return next((one for one in order if one in found), "not comparable")

    @property
    def why(self) -> str:
        """Reason why the sides are not comparable, and the differences beside the numbers."""
        parts = [self.comparability.why_not]
        parts += [check.sentence for check in self.comparability.reported]
        if self.comparability.unknown:
            names = ", ".join(check.name for check in self.comparability.unknown)
            parts.append(f"unknown in one or both runs: {names}")
        parts += self.remarks
        if self.verdict_text == INDISTINCT:
            parts.insert(0, ONE_RUN)
        return "; ".join(part for part in parts if part)


def compare(
    a: Sequence[Run], b: Sequence[Run], *, runs_vary_pct: float | None = None
) -> Comparison:
    """Compare runs; several runs of one side are repetitions.

    Args:
        a: runs of the first side.
        b: runs of the second side.
        runs_vary_pct: by how many percent two runs of one command differ, where it is known.
    """
    found = comparability(a[0], b[0])
    rows = [_row(figure, a, b, found, runs_vary_pct) for figure in (*FIGURES, *calls_of((*a, *b)))]
    known = [row for row in rows if row.a is not None or row.b is not None]
    return Comparison(
        a=tuple(run.name for run in a),
        b=tuple(run.name for run in b),
        comparability=found,
        rows=tuple(known),
        remarks=tuple(_remarks(a, b)),
        runs_vary_pct=runs_vary_pct,
    )


def _remarks(a: Sequence[Run], b: Sequence[Run]) -> Iterator[str]:
    if any(run.profiled for run in (*a, *b)):
        yield "nsys was recording: throughput and times are no evidence"
    for side, runs in (("A", a), ("B", b)):
        for run in runs:
            yield from (f"{side}: {problem}" for problem in run.problems)


def _row(
    figure: Figure,
    a: Sequence[Run],
    b: Sequence[Run],
    found: Comparability,
    runs_vary_pct: float | None,
) -> Row:
    sample_a, sample_b = figure.samples(a, b)
    half, spread = None, ""
    is_one_run = True
    if sample_a is not None and sample_b is not None and figure.depends_on is None:
        is_one_run = RUNS not in (sample_a.what, sample_b.what)
        half = half_width(sample_a, sample_b)
        sides = [f"{len(s.values)} {s.what}" for s in (sample_a, sample_b)]
        spread = " against ".join(dict.fromkeys(sides)) if half is not None else ""
    row = Row(
        name=figure.name,
        unit=figure.unit,
        a=figure.mean(a),
        b=figure.mean(b),
        verdict="",
        note="",
        higher_is_better=figure.higher_is_better,
        half_width=half,
        spread=spread,
    )
    doubts = [figure.doubt(runs[0]) for runs in (a, b)]
    verdict, note = _verdict(row, figure, doubts, found)
    if not verdict:
        verdict, note = judged(row, runs_vary_pct, is_one_run=is_one_run)
    return replace(row, verdict=verdict, note=note)


def _verdict(
    row: Row,
    figure: Figure,
    doubts: Sequence[str],
    found: Comparability,
) -> tuple[Verdict, str]:
    """Verdict of a number that the noise does not decide, "" where it does."""
    if row.delta is None or row.a is None:
        return "not comparable", f"{'A' if row.a is None else 'B'} does not state it"
    why_not = figure.why_not(found) or found.unknown_of(figure.must_be_known)
    if why_not:
        return "not comparable", why_not
    if any(doubts):
        return "not comparable", _both(doubts)
    if figure.depends_on is not None:
        return direction(row), "calls of the profiled node over its backward passes"
    return "", ""


def judged(row: Row, runs_vary_pct: float | None, *, is_one_run: bool) -> tuple[Verdict, str]:
    """Verdict by the noise: beyond the interval of the values and the stated spread between runs.

    Of one run a side the interval is that of its parts. A difference within it is noise whatever
    runs do; one beyond it says nothing without the spread between runs.
    """
    limit = limit_of(row.a, runs_vary_pct)
    known = [one for one in (row.half_width, limit) if one is not None]
    notes = []
    if row.half_width is not None:
        over = ", within one run" if is_one_run else ""
        notes.append(f"difference ±{row.half_width:.3g} {row.unit} (95 %{over})")
    if runs_vary_pct is not None:
        notes.append(stated(runs_vary_pct))
    if is_one_run and limit is None:
        return "not distinguishable", "; ".join([*notes, "one run a side"])
    return beyond(row, max(known)) if known else "not distinguishable", "; ".join(notes)


def _both(doubts: Sequence[str]) -> str:
    if len(set(doubts)) == 1:
        return f"both: {doubts[0]}"
    return "; ".join(f"{side}: {text}" for side, text in zip("AB", doubts, strict=True) if text)


def beyond(row: Row, limit: float) -> Verdict:
    """Return better or worse where the difference exceeds a limit."""
    return direction(row) if abs(row.delta or 0.0) > limit else "not distinguishable"


def direction(row: Row) -> Verdict:
    """Return better or worse by the sign of the difference."""
    if not row.delta:
        return "not distinguishable"
    return "better" if (row.delta > 0) == row.higher_is_better else "worse"
