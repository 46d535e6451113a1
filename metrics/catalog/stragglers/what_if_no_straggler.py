"""Step time if no rank were slower than the ranks that run the same program.

Beside it stands the slowdown against a job whose operations of one type are all alike (`Slowdown`):

ideal     every compute type takes its mean over workers, stages, micro-batches and steps, every
          type of communication the median of its transfer times
S         mean step of the replay as recorded over that of the ideal
S of X    only X (a type, a stage, one data-parallel rank) as recorded, all else ideal
S of w    the smaller of those of the stage and of the data-parallel rank of worker w: an upper
          bound from pp + dp replays instead of pp * dp
M of X    share of (T - ideal) that goes when the operations of X alone are ideal
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.typical import SLOW
from ccltui.metrics.findings.replay.job_facts import job_facts, steps_left_out
from ccltui.metrics.findings.replay.ladder import MAX_UNLINKED, Ladder, ladder_of
from ccltui.metrics.findings.replay.lines.pass_units import TYPE_NAMES
from ccltui.metrics.findings.replay.lines.step_replay import DeadlockError
from ccltui.metrics.findings.replay.savings import (
    ROUNDING,
    bounds_of_hosts,
    is_longer,
    per_step_rows,
    refused,
    saved_time,
    savings_of,
    why_host_bound,
    why_not_physical,
    withheld,
)
from ccltui.metrics.findings.replay.unit_targets import means_by, medians_by
from ccltui.metrics.findings.replay.verdict_rules import why_apart
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.collective_selection import require_ranks
from ccltui.metrics.view.data_quality import guessed_steps, ranks_of
from ccltui.metrics.view.match_quality import match_reasons
from ccltui.metrics.view.provenance import answer, source_of
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.numbers import percent

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


LEAST_OF_HOSTS: Final = 0.05
"""Share of a step that devices idle for their hosts, from which that is said."""
MAX_RANKS: Final = 8


_TYPICAL: Final = (
    f"the median of those that run its program and are within {percent(SLOW)} of their lower "
    "median, there and in the whole step"
)


_EQUALISED: Final = (
    "every pass takes the mean of its type over workers, stages, micro-batches and steps, every "
    "transfer the median of comparable transfers"
)
_REPAIRED: Final = "every pass takes the mean over stages of the typical worker of the stage"
_SLOWDOWN_KEYS: Final = (
    "equalised_slowdown",
    "equalised_ideal_step_time_ms",
    "slowdown_by_type",
    "slowdown_by_stage",
    "slowdown_by_worker",
    "m_w",
    "m_s",
    "m_stage",
    "repaired_slowdown",
    "host_slowdown",
)


@metric(
    unit="ratio",
    definition=(
        "Step time divided by the step time without stragglers. The latter is that of a replay of "
        "collectives and transfers in which every rank computes and idles between two calls as "
        "long as is typical of the ranks that run the same program and are not slow; a step takes "
        "at least as long as its launches. There is no value where less work makes the replayed "
        "step longer by more than rounding (a millionth)."
    ),
    needs=(
        "GPU kernels of all ranks",
        "step markers, or a call that recurs",
        "2 ranks that run the same program",
    ),
    facts=("arrivals", "lines"),
    keys=(
        "slowdown",
        "step_time_ms",
        "ideal_step_time_ms",
        "saved_ms",
        "saved_pct",
        "num_steps",
        "without_rank",
        "per_step",
        "replay_error_us",
        "replay_error_pct",
        "unlinked_share",
        "alone",
        "saved_bounds_ms",
        *_SLOWDOWN_KEYS,
    ),
    label="slowdown by stragglers",
    higher_is_better=False,
)
def what_if_no_straggler(view: View) -> Result:
    """Step times without the excess of all ranks, and of each of those that caused most waiting."""
    require_ranks(view)
    source, warnings = source_of(view.ranks)
    _require_devices(view, source)
    try:
        return _slowdown(view, warnings)
    except Refusal as refusal:
        attributed, notes = _attributed(view)
        if attributed["equalised_slowdown"] is None or not ladder_of(view).compares:
            raise
        # What the slowdown within one program cannot tell does not refute that over all passes.
        return answer(
            what_if_no_straggler,
            view,
            dict.fromkeys(what_if_no_straggler.keys) | attributed,
            source="kernel",
            basis={"equalised": _EQUALISED, "repaired": _REPAIRED},
            reasons=refusal.reasons,
            warnings=[*warnings, *notes],
        )


def _slowdown(view: View, warnings: Sequence[str]) -> Result:
    ladder, found = _described(view), savings_of(view)
    job = ladder.job
    if len(found.alone) == len(job.labels) - len(job.out):
        raise refuse("not_applicable", "no two ranks run the same program")
    was, even = ladder.delayed, found.even
    if is_longer(was, even) and job.replay.unlinked <= MAX_UNLINKED:
        raise refuse("not_physical", why_not_physical(was, even))
    steps = tuple(job.table.step_ids.tolist())
    per_step = per_step_rows(steps, was, even)
    suspects = found.suspects(MAX_RANKS)
    healed = found.each_like_others([found.lines_of([rank]) for rank in suspects])
    without = {
        job.labels[rank]: saved_time(was, ends) for rank, ends in zip(suspects, healed, strict=True)
    }
    attributed, notes = _attributed(view)
    details: dict[str, Any] = {
        "slowdown": max(float(was.sum() / even.sum()), 1.0),
        **saved_time(was, even),
        "num_steps": len(steps),
        "without_rank": without,
        "per_step": per_step,
        "replay_error_us": float(np.abs(was - ladder.rungs[6]).max()) / 1000,
        "unlinked_share": job.replay.unlinked,
        "alone": list(found.alone),
        **attributed,
    }
    bounds = bounds_of_hosts(ladder.host_need_ns, was, even)
    details["saved_bounds_ms"] = bounds
    reasons = [
        Reason("missing_ranks", f"rank {n} is not replayed: {why}", rank=n)
        for n, why in job.out.items()
    ]
    reasons += [*why_host_bound(bounds), *_match_reasons(view), *steps_left_out(job)]
    reasons += guessed_steps(view)
    reasons += withheld(view, found, details, host_bound=bounds is not None)
    return answer(
        what_if_no_straggler,
        view,
        details,
        source="kernel",
        basis={
            "step": job.step_basis,
            "equalised": _EQUALISED,
            "repaired": _REPAIRED,
            "ideal": f"between two calls every rank takes {_TYPICAL} in the same step; one that "
            "runs it alone, of the passes of its stage",
            "replay": "collectives end as long after the last arrival as their shortest call took",
            "not_replayed": "the host: a step takes at least the time that its launches take",
            "longer": f"what replays longer by more than {ROUNDING:g} of itself has no ideal",
            "ranks": f"at most {MAX_RANKS} that take longer than comparable ranks",
        },
        reasons=reasons,
        warnings=[*warnings, *notes, *refused(without, per_step)],
    )


def _described(view: View) -> Ladder:
    """Return the replays of a job that they describe.

    Raises:
        Refusal: They do not.
    """
    try:
        ladder = ladder_of(view)
        refuted = ladder.refuted()
    except DeadlockError as error:
        raise refuse("unmatched_collectives", f"the job cannot be replayed: {error}") from None
    if ladder.job.period != "a step":
        raise refuse(
            "no_step_markers", "not every rank marks its steps, and no collective repeats regularly"
        )
    if refuted is not None:
        raise refuse("not_applicable", refuted)
    apart = why_apart(ladder.job, names_only=job_facts(view).names_only)
    if apart is not None:
        raise refuse("unmatched_collectives", apart)
    return ladder


def _attributed(view: View) -> tuple[dict[str, Any], list[str]]:
    """Slowdown against passes that are all alike; null with a warning if it is not told."""
    nothing: dict[str, Any] = dict.fromkeys(_SLOWDOWN_KEYS)
    try:
        ladder = ladder_of(view)
        invalid = ladder.refuted() if ladder.job.marked else "steps are not marked"
        invalid = invalid or ladder.unequal_passes()
        if invalid is not None:
            return nothing, [f"equalised and repaired slowdown are not given: {invalid}"]
        found = Slowdown(ladder).details()
        error = 100 * ladder.replay_error
    except (Refusal, DeadlockError) as error_of_job:
        return nothing, [f"equalised and repaired slowdown are not given: {error_of_job}"]
    notes = []
    if found["equalised_slowdown"] is None:
        notes.append(
            "equalised slowdown is not given: with all passes alike the replayed step is longer"
        )
    host = found["host_slowdown"]
    if host > 1 + LEAST_OF_HOSTS:
        notes.append(
            f"devices wait for their hosts in {percent(1 - 1 / host)} of the step: without "
            "stragglers that part stays"
        )
    return {**found, "replay_error_pct": error}, notes


def _match_reasons(view: View) -> list[Reason]:
    try:
        return match_reasons(view)
    except Refusal as refusal:
        return list(refusal.reasons)


def _ranks_without(labels: Sequence[str]) -> str:
    verb = "has" if len(labels) == 1 else "have"
    return f"{ranks_of(labels)} {verb} no kernels with times"


def _require_devices(view: View, source: str) -> None:
    without = [
        label
        for label, one in view.facts.ranks.items()
        if not one.has_kernels or view.facts.named_calls[label].event_group != "gpu"
    ]
    if source != "kernel" or without:
        which = f": {_ranks_without(without)}" if without else ""
        raise refuse("no_gpu_events", f"a replay needs the device work of all ranks{which}")


_Key = TypeVar("_Key", int, str)

LEAST_PHYSICAL: Final = 0.995
"""A slowdown below this is no property of the job: the replay does not describe it."""
LEAST_DECOMPOSED: Final = 1.03
"""A smaller slowdown has no parts."""
MAX_WORKERS: Final = 16
WORKERS_FIXED: Final = 0.03
"""Share of the workers that M_W makes ideal."""
MAX_EVENTS: Final = 8_000_000
"""So many operations are replayed for data-parallel ranks, but one rank at least."""


class Slowdown(Struct, frozen=True, dict=True):
    """The quantities of one job; ratios of mean step times."""

    ladder: Ladder

    @cached_property
    def _ideal_units(self) -> F64:
        return means_by(self.ladder.targets.own, self.ladder.targets.kind)

    @cached_property
    def _ideal_segments(self) -> F64:
        """Time of each segment with all units ideal."""
        return self.ladder.job.segments(self._ideal_units)

    @cached_property
    def _ideal_transfer(self) -> F64:
        """Median of the instances that are alike."""
        return medians_by(self.ladder.recorded_transfer, self.ladder.job.table.alike)

    def _time(self, units: Bool, instances: Bool) -> float:
        """Mean step with some units and instances as recorded, all others ideal."""
        return self._times([(units, instances)])[0]

    def _times(self, kept: Sequence[tuple[Bool, Bool]]) -> list[float]:
        """The same of several choices of units and instances."""
        ends = self.ladder.job.replay.many(self._run(*one) for one in kept)
        return [float(one) for one in ends.mean(axis=1)]

    def _run(self, units: Bool, instances: Bool) -> tuple[F64, F64]:
        """Time of each segment and instance, some as recorded and all others ideal."""
        operations = self.ladder.job.operations
        segments = self._ideal_segments
        if units.any():
            # units share no segments, so those of others do not depend on what is kept
            kept = np.append(units, False)[operations.unit]
            segments = np.where(kept, operations.compute_ns, segments)
        transfer = np.where(instances, self.ladder.recorded_transfer, self._ideal_transfer)
        return segments, transfer

    @cached_property
    def _all(self) -> tuple[Bool, Bool]:
        size = len(self.ladder.targets.own), len(self.ladder.recorded_transfer)
        return np.ones(size[0], np.bool_), np.ones(size[1], np.bool_)

    @cached_property
    def recorded_ns(self) -> float:
        """Mean step of the replay as recorded, without host delays."""
        return float(self.ladder.rungs[5].mean())

    @cached_property
    def ideal_ns(self) -> float:
        """Mean step of the ideal."""
        units, instances = self._all
        return self._time(~units, ~instances)

    @cached_property
    def equalised(self) -> float:
        """S."""
        return self.recorded_ns / self.ideal_ns

    @cached_property
    def by_type(self) -> dict[str, float]:
        """S of each type of operation."""
        job, (units, instances) = self.ladder.job, self._all
        kept = {
            TYPE_NAMES[kind]: (job.units.type == kind, ~instances)
            for kind in distinct_values(job.units.type).tolist()
        }
        kept |= {name: (~units, one) for name, one in self._types_of_instances().items()}
        return self._slowdowns(kept)

    def _slowdowns(self, kept: Mapping[_Key, tuple[Bool, Bool]]) -> dict[_Key, float]:
        times = self._times(list(kept.values()))
        return {key: time / self.ideal_ns for key, time in zip(kept, times, strict=True)}

    def _types_of_instances(self) -> dict[str, Bool]:
        """Masks of the instances of each operation; sends and receives of a direction are one."""
        table = self.ladder.job.table
        linked = np.flatnonzero(table.instance >= 0)
        kind = np.zeros(len(table.transfer_ns), np.int64)
        kind[table.instance[linked]] = table.kind[linked]
        towards = np.zeros(len(table.transfer_ns), np.int64)
        towards[table.instance[linked]] = table.direction[linked]
        found: dict[str, Bool] = {}
        is_pair = table.group < 0
        for one, name in ((1, "transfer_forward"), (2, "transfer_backward"), (0, "transfer")):
            chosen = is_pair & (towards == one) & (table.pair[:, 0] >= 0)
            if chosen.any():
                found[name] = chosen
        rest = ~(is_pair & (table.pair[:, 0] >= 0))
        for one in distinct_values(kind[rest]).tolist():
            found[TYPES[one]] = rest & (kind == one)
        return found

    @cached_property
    def _stage(self) -> I64:
        return self.ladder.targets.place[self.ladder.job.worker]

    @cached_property
    def by_stage(self) -> dict[int, float]:
        """S of each stage of a pipeline."""
        if not self.ladder.targets.has_stages:
            return {}
        instances = self._all[1]
        stages = distinct_values(self._stage).tolist()
        return self._slowdowns({one: (self._stage == one, ~instances) for one in stages})

    @cached_property
    def _replica(self) -> I64:
        """Data-parallel place of each rank: its number among the ranks of its stage."""
        place = self.ladder.targets.place
        order = np.argsort(place, kind="stable")
        first = np.searchsorted(place[order], place[order])
        found = np.empty(len(place), np.int64)
        found[order] = np.arange(len(place)) - first
        return found

    @cached_property
    def _by_replica(self) -> dict[int, float]:
        job, targets = self.ladder.job, self.ladder.targets
        replica = self._replica[job.worker]
        excess = np.bincount(replica, weights=np.abs(targets.own - self._ideal_units))
        count = max(1, MAX_EVENTS // max(job.operations.count, 1))
        chosen = np.argsort(-excess)[: min(count, MAX_WORKERS)].tolist()
        instances = self._all[1]
        return self._slowdowns({one: (replica == one, ~instances) for one in chosen})

    @cached_property
    def by_worker(self) -> dict[int, float]:
        """S of the ranks (indices) with the largest, descending."""
        ranks = distinct_values(self.ladder.job.table.rank)
        place, replica = self.ladder.targets.place, self._replica
        found = {
            int(rank): min(
                self.by_stage.get(int(place[rank]), np.inf), self._by_replica[int(replica[rank])]
            )
            for rank in ranks
            if int(replica[rank]) in self._by_replica
        }
        return dict(sorted(found.items(), key=lambda item: -item[1])[:MAX_WORKERS])

    def _m(self, fixed: Bool) -> float | None:
        """M of the units in a mask; None where there is no slowdown to divide."""
        if self.equalised < LEAST_DECOMPOSED:
            return None
        time = self._time(~fixed, self._all[1])
        return (self.recorded_ns - time) / (self.recorded_ns - self.ideal_ns)

    @cached_property
    def m_w(self) -> float | None:
        """M of the 3 % of the workers with the largest S."""
        count = int(np.ceil(WORKERS_FIXED * len(distinct_values(self.ladder.job.table.rank))))
        return self._m(np.isin(self.ladder.job.worker, list(self.by_worker)[:count]))

    @cached_property
    def m_stage(self) -> dict[int, float] | None:
        """M of each stage; None without a pipeline or a slowdown."""
        if not self.by_stage or self.equalised < LEAST_DECOMPOSED:
            return None
        instances, loss = self._all[1], self.recorded_ns - self.ideal_ns
        times = self._times([(self._stage != stage, instances) for stage in self.by_stage])
        return {
            stage: (self.recorded_ns - time) / loss
            for stage, time in zip(self.by_stage, times, strict=True)
        }

    def details(self) -> dict[str, Any]:
        """Return the keys of the metric; those against the ideal are null where it is longer."""
        ladder = self.ladder
        repaired = float(ladder.rungs[6].mean() / ladder.rungs[0].mean())
        found: dict[str, Any] = dict.fromkeys(_SLOWDOWN_KEYS)
        found["repaired_slowdown"] = repaired if repaired >= LEAST_PHYSICAL else None
        found["host_slowdown"] = float(ladder.rungs[6].mean() / self.recorded_ns)
        if self.equalised < LEAST_PHYSICAL:
            return found
        labels, last = ladder.job.labels, ladder.job.stages.count - 1
        m_stage = self.m_stage
        found |= {
            "equalised_slowdown": self.equalised,
            "equalised_ideal_step_time_ms": self.ideal_ns / 1e6,
            "slowdown_by_type": self.by_type,
            "slowdown_by_stage": {str(k): v for k, v in self.by_stage.items()} or None,
            "slowdown_by_worker": {labels[rank]: value for rank, value in self.by_worker.items()},
            "m_w": self.m_w,
            "m_s": None if m_stage is None else m_stage.get(last),
            "m_stage": None if m_stage is None else {str(k): v for k, v in m_stage.items()},
        }
        return found


metric_cal = what_if_no_straggler.document_of
