"""Compute the metrics of a planted job: verdict, culprit, cause, confidence and cost of each."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ccltui.demo.planted import JobSpec, PlantedTruth, write_planted
from ccltui.metrics.findings.replay.lines.job_lines import UNMARKED
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import UnknownMetricError, find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

METRICS: Final = (
    "findings",
    "verdict",
    "blame_chain",
    "straggler_lag",
    "straggler_cause",
    "what_if_no_straggler",
    "fix_first",
)
MEMORY: Final = Path("/dev/shm")


class Answer(Struct, frozen=True):
    """Answer of one metric.

    Attributes:
        status: Of the result.
        reason: Code of the reason where there is no value.
        verdict: Class, of ``verdict`` and ``findings`` alone.
        ranks: Ranks that are named.
        stage: Stage that is named.
        cause: Why, where the metric states it.
        confidence: "high", "medium", "low", or "" where the metric states none.
        material: Whether the waiting or loss that is ascribed to them exceeds 1 % of rank time.
        saved_ms: Time per step that mending it saves.
        step_ms: Mean step that the saved time is a part of.
        slowdown: S, of ``what_if_no_straggler``.
        num_ranks: Ranks that the result covers, where it states them.
        num_steps: Steps that it is a mean over, where it states them.
        steps: Their ids, where these are told.
        is_marked: Its steps are those of the profiler.
        of_window: Its times are those of the whole window, because no step is known.
    """

    status: str
    reason: str = ""
    verdict: str = ""
    ranks: tuple[str, ...] = ()
    stage: int | None = None
    cause: str = ""
    confidence: str = ""
    material: bool = True
    saved_ms: float | None = None
    step_ms: float | None = None
    slowdown: float | None = None
    num_ranks: int | None = None
    num_steps: int | None = None
    steps: tuple[int, ...] | None = None
    is_marked: bool = True
    of_window: bool = False


def answers_of(spec: JobSpec) -> tuple[PlantedTruth, dict[str, Answer]]:
    """Write a job to a temporary folder, read it back, and ask all metrics that exist."""
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="planted-", dir=place) as folder:
        directory = Path(folder) / "job"
        truth = write_planted(directory, spec).truth
        view = View(open_job(directory, cache_dir=Path(folder) / "cache", jobs=1))
        found = {}
        for name in METRICS:
            metric = _metric(name)
            if metric is not None:
                found[name] = read_answer(name, metric.run(view), truth)
    return truth, found


def _metric(name: str) -> Metric | None:
    try:
        return find(name)
    except UnknownMetricError:
        return None


def read_answer(name: str, result: Result, truth: PlantedTruth) -> Answer:
    """Read the answer of one result."""
    reason = result.reasons[0].code if result.reasons else ""
    details = result.details
    ranks, steps = (_count(details.get(key)) for key in ("num_ranks", "num_steps"))
    if result.status == "unavailable":
        return Answer(result.status, reason)
    given = _READERS[name](details, truth)
    return Answer(
        result.status,
        reason,
        num_ranks=ranks,
        num_steps=steps,
        steps=_steps(details, truth),
        is_marked=not result.basis.get("step", "").startswith(UNMARKED),
        **given,
    )


def _steps(details: Mapping[str, Any], truth: PlantedTruth) -> tuple[int, ...] | None:
    """Return the steps that a result is a mean over, None where that is not told."""
    if details.get("per_step"):
        return tuple(row["step"] for row in details["per_step"])
    left_out = details.get("steps_left_out")
    if left_out is None:
        return None
    return tuple(step for step in truth.step_ids if step not in left_out)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _verdict(details: Mapping[str, Any], truth: PlantedTruth) -> dict[str, Any]:
    culprit = details.get("culprit") or {}
    ranks = tuple(culprit.get("ranks") or culprit.get("pair") or culprit.get("group_ranks") or ())
    stage = culprit.get("stage")
    return {
        "verdict": details.get("verdict") or "",
        "ranks": tuple(str(rank) for rank in ranks),
        "stage": int(stage) if isinstance(stage, int | str) and str(stage).isdigit() else None,
        "cause": _stated_cause(details) if details.get("verdict") == "host" else "",
        "confidence": details.get("confidence") or "",
        "saved_ms": details.get("saves_ms"),
        "step_ms": (details.get("ladder_ms") or [None])[-1],
    }


HOST_CAUSES: Final = (
    "data_loading",
    "checkpoint",
    "garbage_collection",
    "allocation",
    "synchronisation",
    "host_work",
    "host_stall",
    "host_blocked",
)


def _stated_cause(details: Mapping[str, Any]) -> str:
    """Cause of a verdict about hosts: a key of its own, else named in its sentence."""
    stated = (details.get("evidence") or {}).get("cause") or details.get("cause")
    if stated:
        return str(stated)
    sentence = str(details.get("why") or "")
    return next((one for one in HOST_CAUSES if one.replace("_", " ") in sentence), "")


def _root(details: Mapping[str, Any], truth: PlantedTruth) -> dict[str, Any]:
    rank, roots = details.get("root_rank"), details.get("roots") or ()
    waited = sum(
        float(root.get("caused_wait_ms") or 0) for root in roots if root.get("rank") == rank
    )
    return {
        "ranks": () if rank is None else (str(rank),),
        "cause": details.get("root_cause") or "",
        "confidence": details.get("root_confidence") or "",
        "material": _share_of_time(waited, truth) >= MATERIAL,
    }


MATERIAL: Final = 0.01


def _share_of_time(waited_ms: float, truth: PlantedTruth) -> float:
    """Share of the time of all recorded ranks, over all steps."""
    return waited_ms / (truth.step_ms * truth.steps * max(1, len(truth.recorded)))


def _cause(details: Mapping[str, Any], truth: PlantedTruth) -> dict[str, Any]:
    rank, cause = details.get("main_rank"), details.get("main_cause") or ""
    waited = float((details.get("causes") or {}).get(cause, {}).get("caused_wait_ms") or 0)
    return {
        "ranks": () if rank is None else (str(rank),),
        "cause": cause,
        "confidence": details.get("main_confidence") or "",
        "material": _share_of_time(waited, truth) >= MATERIAL,
    }


def _lag(details: Mapping[str, Any], truth: PlantedTruth) -> dict[str, Any]:
    rank = details.get("worst_straggler")
    waited = float((details.get("blame") or {}).get(rank, {}).get("caused_wait_us") or 0) / 1e3
    return {
        "ranks": () if rank is None else (str(rank),),
        "material": _share_of_time(waited, truth) >= MATERIAL,
    }


def _what_if(details: Mapping[str, Any], _: PlantedTruth) -> dict[str, Any]:
    return {
        "saved_ms": details.get("saved_ms"),
        "step_ms": details.get("step_time_ms"),
        "slowdown": details.get("slowdown"),
    }


def _fix(details: Mapping[str, Any], truth: PlantedTruth) -> dict[str, Any]:
    losses = [loss for loss in details.get("losses") or () if loss.get("kind") == "straggler"]
    if not losses:
        return {}
    return {
        "ranks": (str(losses[0].get("what")),),
        "material": float(losses[0].get("share") or 0) >= MATERIAL,
    }


NAMING: Final = frozenset(
    {
        "slow_worker",
        "occasional_worker",
        "slow_node",
        "heavy_stage",
        "uneven_microbatches",
        "uneven_experts",
        "slow_link",
        "random",
    }
)
"""Classes of findings that are classes of faults too."""
OF_HOSTS: Final[Mapping[str, str]] = {
    "data_loading": "data_loading",
    "host_allocation": "allocation",
    "host_synchronisation": "synchronisation",
    "checkpoint": "checkpoint",
    "garbage_collection": "garbage_collection",
    "host_bound": "host_work",
    "idle_unknown": "",
}
"""Classes of findings on devices that idle for their hosts, with the cause that they state."""


def read_finding(
    found: Mapping[str, Any], details: Mapping[str, Any], truth: PlantedTruth
) -> dict[str, Any] | None:
    """Read whom and what one finding of the details names, None where it blames nobody.

    Idle devices are a fact; hosts of all ranks are blamed by it only where a fault is theirs.
    """
    kind, ranks = found["class"], tuple(found["where"]["ranks"])
    of_all_hosts = any(fault.verdict == "host" and not fault.ranks for fault in truth.faults)
    of_hosts = kind in OF_HOSTS and (bool(ranks) or of_all_hosts)
    of_one = kind in ("waiting_for_rank", "slow_steps") and bool(ranks)
    if kind not in NAMING and not of_hosts and not of_one:
        return None
    sure = found["sure"]["who" if ranks else "what"]
    return {
        "verdict": "host" if of_hosts else kind,
        "ranks": ranks,
        "stage": found["where"]["stage"],
        "cause": OF_HOSTS.get(kind, ""),
        # Who has most of an idle time is not stated with a confidence.
        "confidence": "low" if sure == "unknown" else sure,
        # Lower and upper bounds are no figure that could be compared.
        "saved_ms": found["saves_ms"] if found["saves_bounds_ms"] is None else None,
        "step_ms": details["period_ms"],
        "of_window": details["period"] == "window",
        "material": (found["share"] or 0.0) >= MATERIAL,
    }


def _findings(details: Mapping[str, Any], truth: PlantedTruth) -> dict[str, Any]:
    """Read the first finding that blames somebody."""
    answers = (read_finding(one, details, truth) for one in details["findings"])
    return next(filter(None, answers), {"verdict": "inconclusive"})


_READERS: Final = {
    "findings": _findings,
    "verdict": _verdict,
    "blame_chain": _root,
    "straggler_lag": _lag,
    "straggler_cause": _cause,
    "what_if_no_straggler": _what_if,
    "fix_first": _fix,
}
