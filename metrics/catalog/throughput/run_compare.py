"""Comparison with another run, quantity by quantity, against the scatter of the steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import mean, ratio
from ccltui.metrics.compare.compare_runs import INDISTINCT, Sample, half_width, limit_of
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.provenance import answer, require_traces
from ccltui.metrics.workload.hardware import device_names
from ccltui.metrics.workload.job_steps import step_times
from ccltui.parsers.errors import TraceError
from ccltui.parsers.job import open_job

if TYPE_CHECKING:
    from ccltui.metrics.arrays.intervals import Intervals
    from ccltui.metrics.view.rank_view import RankView

AGAINST: Final = "against"
RUNS_VARY: Final = "runs_vary_pct"
_STEPS: Final = "steps"
_STATED: Final = (
    "phase",
    "batch_size",
    "batch_size_scope",
    "seq_len",
    "precision",
    *("dp_replicate", "dp_shard", "tp", "pp", "cp", "ep"),
)

_Part = Callable[["RankView"], "Intervals"]
_PARTS: Final[Mapping[str, _Part]] = {
    "comp_ms": lambda rank: rank.comp,
    "comm_ms": lambda rank: rank.comm,
    "exposed_ms": lambda rank: rank.exposed,
    "idle_ms": lambda rank: rank.windows - rank.occupied,
}
"""Time of the device in a step, mean over ranks."""


@metric(
    unit="%",
    definition=(
        "Change in percent of the mean step time against another run; the details compare the "
        "parts of a step. A difference counts as a change only beyond the 95 % interval of the "
        "steps and the spread between runs, which has to be stated, and between comparable runs."
    ),
    needs=("step markers in both runs", "the directory of the other run"),
    facts=("step_of_work", "busy"),
    keys=(
        "change_pct",
        "verdict",
        "rows",
        "comparability",
        "against",
        "num_steps",
        "num_steps_against",
    ),
    label="change against another run",
    higher_is_better=False,
    category="time",
    parameters={
        AGAINST: "directory of the other run",
        RUNS_VARY: "by how many percent two runs of one command differ",
    },
)
def run_compare(view: View) -> Result:
    """Means over steps of both jobs, and whether their difference exceeds the spread."""
    other = _other(view)
    checks = _checks(view, other)
    different = [check for check in checks if check["standing"] == "different"]
    if different:
        parts = [f"{c['name']}: {c['against']} there, {c['this']} here" for c in different]
        raise refuse("not_applicable", f"the runs are not comparable: {'; '.join(parts)}")
    there, here = _samples(other), _samples(view)
    vary = _runs_vary(view)
    rows = [_row(name, there[name], here[name], vary) for name in here if name in there]
    unknown = [check["name"] for check in checks if check["standing"] == "unknown"]
    details: dict[str, Any] = {
        "change_pct": rows[0]["change_pct"],
        "verdict": rows[0]["verdict"],
        "rows": rows,
        "comparability": checks,
        "against": other.job.path,
        "num_steps": len(here["iter_time_ms"].values),
        "num_steps_against": len(there["iter_time_ms"].values),
    }
    reasons = []
    if unknown:
        text = f"unknown in one of the runs and assumed to be equal: {', '.join(unknown)}"
        reasons.append(Reason("card_incomplete", text))
    return answer(
        run_compare,
        view,
        details,
        source="annotation",
        basis={
            "change": "this job against the other: below 0 it is faster",
            "spread": "half of the 95 % interval of the difference of two means over steps (Welch)",
            "verdict": "no change is stated where the interval contains 0, each has one step, or "
            "the spread between runs is not stated (--set runs_vary_pct=PCT)",
        },
        reasons=reasons,
    )


def _other(view: View) -> View:
    path = view.card.text(AGAINST)
    if not path:
        raise refuse("no_trace", f"no other run is named: --set {AGAINST}=DIR")
    overrides = {k: v for k, v in view.options.overrides.items() if k != AGAINST}
    try:
        job = open_job(path, profile_mode=view.options.profile_mode)
    except (TraceError, OSError) as error:
        raise refuse("no_trace", f"the other run: {error}") from error
    other = View(job, view.options).with_options(overrides=overrides, window=None)
    try:
        require_traces(other)
    except Refusal as refusal:
        first = refusal.reasons[0]
        raise refuse(first.code, f"the other run: {first.message}") from refusal
    return other


def _facts(view: View) -> dict[str, str]:
    stated = {name: view.card.text(name) for name in _STATED}
    measured = {
        "world size": "" if view.world_size is None else str(view.world_size),
        "ranks": ", ".join(sorted(rank.label for rank in view.ranks)),
        "device": ", ".join(device_names(view)),
        "step marker": ", ".join(sorted({rank.marker or "" for rank in view.ranks} - {""})),
        "profiler": ", ".join(sorted({rank.trace.source.format for rank in view.ranks})),
    }
    return {**measured, **stated}


def _checks(view: View, other: View) -> list[dict[str, str]]:
    """Settings that both runs must share; a setting that neither run states is left out."""
    this, against = _facts(view), _facts(other)
    return [
        {
            "name": name,
            "against": against[name],
            "this": this[name],
            "standing": "equal"
            if against[name] == this[name]
            else "different"
            if against[name] and this[name]
            else "unknown",
        }
        for name in this
        if against[name] or this[name]
    ]


def _samples(view: View) -> dict[str, Sample]:
    """Values of each quantity by step."""
    times = step_times(view)
    found = {"iter_time_ms": [ns / 1e6 for ns in times.slowest_ns]}
    ranks = [rank for rank in view.ranks if rank.facts.has_kernels and rank.by_steps]
    for name, part in _PARTS.items() if ranks else ():
        found[name] = _by_step(ranks, part, times.ids)
    return {name: Sample(tuple(values), _STEPS) for name, values in found.items() if values}


def _by_step(ranks: Sequence[RankView], part: _Part, ids: Sequence[int]) -> list[float]:
    covered: defaultdict[int, list[int]] = defaultdict(list)
    for rank in ranks:
        for step, ns in rank.covered_by_step(part(rank)).items():
            covered[step].append(ns)
    return [(mean(covered[step]) or 0.0) / 1e6 for step in ids if step in covered]


def _runs_vary(view: View) -> float | None:
    """Return the spread between runs in percent that the user stated, None for none."""
    text = view.card.text(RUNS_VARY)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise refuse("not_applicable", f"{RUNS_VARY} is {text[:40]!r}, not a percentage from 0")
    return value


def _row(name: str, there: Sample, here: Sample, vary: float | None) -> dict[str, Any]:
    delta, width = here.mean - there.mean, half_width(there, here)
    return {
        "quantity": name,
        "against_mean": there.mean,
        "mean": here.mean,
        "delta": delta,
        "change_pct": _percent(ratio(delta, there.mean)),
        "half_width": width,
        "n_against": len(there.values),
        "n": len(here.values),
        "std_against": there.std,
        "std": here.std,
        "verdict": _verdict(delta, width, limit_of(there.mean, vary)),
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _verdict(delta: float, width: float | None, vary: float | None) -> str:
    """The verdict on a change; all quantities are times, so less is better."""
    if width is None:
        return "unknown: one step each"
    if abs(delta) <= max(width, vary or 0.0):
        return "not distinguishable"
    if vary is None:
        return INDISTINCT
    return "less" if delta < 0 else "more"


metric_cal = run_compare.document_of
