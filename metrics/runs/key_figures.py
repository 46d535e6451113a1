"""Compute the key figures of one run, each with its source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.statistics import mean, median, nearest_rank
from ccltui.metrics.runs.run_files import Run
from ccltui.parsers.numbers import percent

if TYPE_CHECKING:
    from ccltui.parsers.array_types import F64
    from ccltui.parsers.runs.training_log import TrainingLog
    from ccltui.parsers.runs.training_metrics import Epoch

SAMPLED_EVERY: Final = 50
"""Micro-steps per step time of writers that do not state their number of samples."""
LEAST_COVERAGE: Final = 0.9
MOST_COVERAGE: Final = 1.1
"""Between them, mean times steps is the training wall: the samples represent the run."""
_LEAST_TIMES: Final = 5
"""Fewer have no spread worth printing where the log states the mean of all steps."""
_MOST_POINTS: Final = 2000


class Throughput(Struct, frozen=True):
    """Tokens of all ranks per second, samples too or instead where a log states those.

    ``checks`` are contradicting figures, one sentence each.
    """

    tokens_per_s: float | None
    source: str
    per_epoch: tuple[float | None, ...] = ()
    checks: tuple[str, ...] = ()
    samples_per_s: float | None = None


class StepTimes(Struct, frozen=True):
    """Times of micro-steps in seconds.

    They are from ``num_samples`` of ``num_steps`` micro-steps. ``coverage`` is the mean times the
    number of all micro-steps over the wall time of training: 1 where the samples are
    representative of the run. ``stated``: the file states the number of samples. Each is the
    mean of ``steps_per_sample`` micro-steps.
    """

    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    num_samples: int | None
    num_steps: int | None
    coverage: float | None
    source: str
    stated: bool
    sampling: str = ""
    steps_per_sample: int = 1

    @property
    def caveat(self) -> str:
        """Reason why the step times do not represent the run, "" where they do."""
        if self.steps_per_sample > 1:
            return (
                f"step times, p95 too, are of {self.num_samples} means of {self.steps_per_sample} "
                "steps each: a single slow step does not show"
            )
        sampled = self.num_samples is not None and self.num_samples != self.num_steps
        low = self.coverage is not None and not LEAST_COVERAGE <= self.coverage <= MOST_COVERAGE
        if not sampled and not low:
            return ""
        parts = []
        if sampled:
            of = "" if self.num_steps is None else f" of {self.num_steps:,}"
            how = "" if self.stated else " (computed, not stated)"
            parts.append(f"rest on {self.num_samples}{of} micro-steps{how}")
        if self.coverage is not None:
            verb = "cover" if low else "agree with"
            parts.append(f"{verb} {percent(self.coverage)} of the training wall time")
        return f"step times, p95 too, {' and '.join(parts)}"


class Loss(Struct, frozen=True):
    """Last training loss, best validation loss, and the training loss by step."""

    last_train: float | None
    best_val: float | None
    curve: tuple[float | None, ...]
    steps: tuple[int, ...]
    source: str


def throughput(run: Run) -> Throughput | None:
    """Return the throughput of a run: as it states, else from its steps, else from its log."""
    metrics = run.metrics
    if metrics is not None and metrics.epochs:
        per_epoch = tuple(epoch.tokens_per_s for epoch in metrics.epochs)
        known = [value for value in per_epoch if value is not None]
        stated = metrics.mean_tokens_per_s
        value = mean(known) if stated is None else stated
        if value is not None:
            source = "training_metrics.json"
            return Throughput(value, source, per_epoch, tuple(_contradictions(run)))
    of_steps = _throughput_of_steps(run)
    if of_steps is not None:
        return of_steps
    if run.completion is not None and run.completion.tokens_per_s is not None:
        return Throughput(run.completion.tokens_per_s, "RUN_COMPLETE.txt")
    return _throughput_of_log(run)


def _throughput_of_steps(run: Run) -> Throughput | None:
    if run.steps is None or not len(run.steps):
        return None
    usable = np.isfinite(run.steps.time_s) & (run.steps.time_s > 0) & (run.steps.tokens >= 0)
    if not usable.any():
        return None
    total_s = math.fsum(run.steps.time_s[usable])
    tokens = int(run.steps.tokens[usable].sum())
    return Throughput(tokens / total_s, f"{int(usable.sum())} steps of training_steps.jsonl")


def _throughput_of_log(run: Run) -> Throughput | None:
    log = run.log
    if log is None:
        return None
    samples = _samples_per_s(log)
    whole = _finite(log.tokens_per_s)
    if len(whole):
        per_epoch = tuple(whole.tolist())
        source = f"{log.dialect} log"
        return Throughput(float(np.mean(whole)), source, per_epoch, samples_per_s=samples)
    each = _after_warm_up(_finite(log.tokens_per_s_per_device))
    if len(each) and run.world_size:
        source = f"{log.dialect} log: median of {len(each)} lines x {run.world_size} devices"
        rate = float(median_along(each)) * run.world_size
        return Throughput(rate, source, samples_per_s=samples)
    return None if samples is None else Throughput(None, f"{log.dialect} log", (), (), samples)


def _samples_per_s(log: TrainingLog) -> float | None:
    """Return samples a second as a log states them, else the batch over the time of a step."""
    if log.mean_samples_per_s is not None:
        return log.mean_samples_per_s
    each = _after_warm_up(_finite(log.samples_per_s))
    if not each:
        with np.errstate(divide="ignore", invalid="ignore"):
            each = _after_warm_up(_finite(log.global_batch / log.time_s))
    return median(each) if each else None


def missing_world(run: Run) -> str:
    """Return why a log with rates of one device gives none of the job, "" where that is not so."""
    log = run.log
    if log is None or run.world_size or not np.isfinite(log.tokens_per_s_per_device).any():
        return ""
    rate = float(median_along(_after_warm_up(_finite(log.tokens_per_s_per_device))))
    return (
        f"the log of {run.name} states {rate:,.4g} tokens/s of one device, and no file the number "
        "of devices: a log, launcher_metadata.json or the traces beside it can state it"
    )


def _finite(values: F64) -> F64:
    return values[np.isfinite(values)]


def _after_warm_up(values: F64) -> list[float]:
    """Return values without the first, which includes compilation and first uses, if several."""
    found: list[float] = values.tolist()
    return found[1:] if len(found) > 1 else found


def _contradictions(run: Run) -> list[str]:
    """Return sentences on epochs whose tokens, time and configuration contradict each other."""
    found = []
    config = run.configuration
    factors = (config.micro_batch, config.seq_len, config.world_size)
    for epoch in run.metrics.epochs if run.metrics is not None else ():
        expected = _product((*factors, epoch.micro_steps))
        if expected is not None and epoch.tokens is not None and expected != epoch.tokens:
            found.append(
                f"epoch {epoch.index} states {epoch.tokens:,} tokens; micro batch x sequence x "
                f"world size x micro-steps is {expected:,}"
            )
        rate = _rate(epoch)
        if rate is not None and epoch.tokens_per_s and abs(rate / epoch.tokens_per_s - 1) > 0.01:
            found.append(
                f"epoch {epoch.index} states {epoch.tokens_per_s:,.2f} tokens/s; its tokens over "
                f"its wall time are {rate:,.2f}"
            )
    return found


def _product(factors: Sequence[int | None]) -> int | None:
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


def _rate(epoch: Epoch) -> float | None:
    if epoch.tokens is None or not epoch.wall_s:
        return None
    return epoch.tokens / epoch.wall_s


def step_times(run: Run) -> StepTimes | None:
    """Return times of micro-steps: from all where the run logged them, else as it states."""
    logged = _times_of_steps(run)
    if logged is not None:
        return logged
    epochs = run.metrics.epochs if run.metrics is not None else ()
    stated = [epoch for epoch in epochs if epoch.step_mean_s or epoch.step_p95_s]
    if stated:
        return _stated_times(stated[-1])
    return _times_of_log(run)


def _times_of_steps(run: Run) -> StepTimes | None:
    if run.steps is None:
        return None
    times = run.steps.time_s[np.isfinite(run.steps.time_s)].tolist()
    if not times:
        return None
    metrics = run.metrics
    walls = [epoch.wall_s for epoch in metrics.epochs] if metrics is not None else []
    wall = math.fsum(wall for wall in walls if wall) if walls and all(walls) else None
    return StepTimes(
        mean_s=mean(times),
        p50_s=median(times),
        p95_s=nearest_rank(times, 0.95),
        num_samples=len(times),
        num_steps=len(run.steps),
        coverage=None if not wall else math.fsum(times) / wall,
        source="training_steps.jsonl",
        stated=True,
        sampling="all",
    )


def _stated_times(epoch: Epoch) -> StepTimes:
    samples, sampling = epoch.step_samples, epoch.step_sampling
    if samples is None and epoch.micro_steps is not None:
        samples = max(epoch.micro_steps // SAMPLED_EVERY, 1)
        sampling = f"not stated; every {SAMPLED_EVERY}th micro-step, as the first writers did"
    coverage = None
    if epoch.step_mean_s is not None and epoch.micro_steps and epoch.wall_s:
        coverage = epoch.step_mean_s * epoch.micro_steps / epoch.wall_s
    return StepTimes(
        mean_s=epoch.step_mean_s,
        p50_s=epoch.step_p50_s,
        p95_s=epoch.step_p95_s,
        num_samples=samples,
        num_steps=epoch.micro_steps,
        coverage=coverage,
        source=f"training_metrics.json, epoch {epoch.index}",
        stated=epoch.step_samples is not None,
        sampling=sampling,
    )


def _times_of_log(run: Run) -> StepTimes | None:
    log = run.log
    if log is None:
        return None
    times = _after_warm_up(_finite(log.time_s))
    if log.mean_step_s is not None and len(times) < _LEAST_TIMES:
        return _mean_of_log(log, log.mean_step_s)
    if not times:
        return None
    mean_of = f", each the mean of {log.steps_per_line} steps" if log.steps_per_line > 1 else ""
    return StepTimes(
        mean_s=mean(times),
        p50_s=median(times),
        p95_s=nearest_rank(times, 0.95),
        num_samples=len(times),
        num_steps=int(log.step[-1]) if len(log) else None,
        coverage=None,
        source=f"{log.dialect} log",
        stated=True,
        sampling=f"one a line of the log{mean_of}, without the first",
        steps_per_sample=log.steps_per_line,
    )


def _mean_of_log(log: TrainingLog, mean_s: float) -> StepTimes:
    return StepTimes(
        mean_s=mean_s,
        p50_s=None,
        p95_s=None,
        num_samples=None,
        # a run may stop before the steps that were planned
        num_steps=int(log.step[-1]) if log.total_steps is not None else None,
        coverage=None,
        source=f"{log.dialect} log",
        stated=False,
        sampling="the mean of all steps, as the log states it at its end",
    )


def loss(run: Run) -> Loss | None:
    """Return the losses of a run at the finest resolution: by step, by log line or by epoch."""
    epochs = run.metrics.epochs if run.metrics is not None else ()
    validated = [epoch.val_loss for epoch in epochs if epoch.val_loss is not None]
    best = min(validated, default=None)
    steps, curve, source = _curve(run)
    known = [value for value in curve if value is not None]
    if not known and best is None:
        return None
    return Loss(known[-1] if known else None, best, curve, steps, source)


def _curve(run: Run) -> tuple[tuple[int, ...], tuple[float | None, ...], str]:
    if run.steps is not None and np.isfinite(run.steps.loss).any():
        return *_thinned(run.steps.step.tolist(), run.steps.loss.tolist()), "training_steps.jsonl"
    if run.log is not None and np.isfinite(run.log.loss).any():
        steps, curve = _thinned(run.log.step.tolist(), run.log.loss.tolist())
        return steps, curve, f"{run.log.dialect} log"
    metrics = run.metrics
    if metrics is not None and metrics.losses is not None and len(metrics.losses):
        numbers = list(range(1, len(metrics.losses) + 1))
        return *_thinned(numbers, metrics.losses.tolist()), "training_metrics.json, by step"
    epochs = metrics.epochs if metrics is not None else ()
    return (
        tuple(epoch.index for epoch in epochs),
        tuple(epoch.train_loss for epoch in epochs),
        "training_metrics.json, by epoch",
    )


def rate_curve(run: Run) -> tuple[float | None, ...]:
    """Return the throughput over the course of a run, tokens/s.

    Of one device where the log states no more; steps/s where it states only step times.
    """
    if run.steps is not None and len(run.steps):
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = run.steps.tokens / run.steps.time_s
        rates[(run.steps.tokens < 0) | ~np.isfinite(rates)] = math.nan
        if np.isfinite(rates).any():
            return _thinned(run.steps.step.tolist(), rates.tolist())[1]
    if run.log is not None:
        for column in (run.log.tokens_per_s, run.log.tokens_per_s_per_device):
            if np.isfinite(column).any():
                return _thinned(run.log.step.tolist(), column.tolist())[1]
        if np.isfinite(run.log.time_s).any():
            return _thinned(run.log.step.tolist(), (1 / run.log.time_s).tolist())[1]
    epochs = run.metrics.epochs if run.metrics is not None else ()
    return tuple(epoch.tokens_per_s for epoch in epochs)


def _thinned(
    steps: Sequence[int], values: Sequence[float]
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Select at most ``_MOST_POINTS`` evenly spaced points with the last one; NaN becomes None."""
    stride = max(-(-len(steps) // _MOST_POINTS), 1)
    chosen = list(range(len(steps) - 1, -1, -stride))[::-1]
    return (
        tuple(int(steps[row]) for row in chosen),
        tuple(float(values[row]) if math.isfinite(values[row]) else None for row in chosen),
    )
