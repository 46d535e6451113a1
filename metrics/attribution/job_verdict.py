"""The verdict on the job of a view, and the ladder behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.attribution.findings import Context, Finding, Verdict
from ccltui.metrics.attribution.gains import Suspect
from ccltui.metrics.attribution.host_needs import host_needs, idle_by_activity, waits_for_copies
from ccltui.metrics.attribution.ladder import RUNGS, Ladder
from ccltui.metrics.attribution.lines.job_lines import JobLines, job_lines
from ccltui.metrics.attribution.lines.left_out import longest_tail, lost_records
from ccltui.metrics.attribution.verdict_rules import Rules
from ccltui.metrics.device.communication_work import unrecorded_copies
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.view.exposed_waits import materiality_pct
from ccltui.parsers.array_types import F64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_ALL_TO_ALL: Final = TYPES.index("AllToAll")


def ladder_of(view: View) -> Ladder:
    """Return the ladder of a view; several metrics share it.

    Raises:
        Refusal: the job has no lines that can be compared.
        DeadlockError: by its replays, where the ranks wait for each other.
    """
    found: Ladder = view.remember(ladder_of, lambda: _ladder(view))
    return found


def _ladder(view: View) -> Ladder:
    job = job_lines(view)
    return Ladder(job, lambda: host_needs(view, job))


def verdict_of(view: View) -> tuple[Ladder, Verdict]:
    """Return the ladder and the verdict of a job.

    Raises:
        Refusal: see `ladder_of` and `materiality_pct`.
        DeadlockError: see `ladder_of`.
    """
    ladder = ladder_of(view)
    job = ladder.job
    context = Context(
        materiality=materiality_pct(view) / 100,
        missing=view.job.missing_ranks,
        missing_of=lambda one: _missing_of(view, ladder, one),
        names_only=names_only(view),
        left_out=tuple(job.out),
        idle_causes=lambda ranks: idle_by_activity(view, job, ranks),
        copy_waits=lambda ranks: waits_for_copies(view, job, ranks),
        has_launches=any(len(trace.group("runtime")) for trace in view.job.ranks),
        elements=_expert_elements(view, job),
        filtered=tuple(
            trace.label
            for trace in view.job.ranks
            if any(note.code == "text_filtered" for note in trace.notes)
        ),
        hides_exchanges=lambda: unrecorded_copies(view.ranks) >= job.num_steps,
        tail=longest_tail(view, job),
        lost=lambda: lost_records(view),
    )
    return ladder, Rules(ladder, context).verdict()


def names_only(view: View) -> bool:
    """Whether no file names the members of a communicator."""
    return not any(group.ranks and not group.implied for group in view.groups)


def _missing_of(view: View, ladder: Ladder, suspect: Suspect) -> Sequence[int]:
    """Ranks without a file in the group of a suspect, or in the groups of its ranks."""
    labels = {ladder.job.labels[rank] for rank in suspect.ranks}
    missing: set[int] = set()
    for match in view.matches.groups:
        if match.missing and (
            match.group == suspect.group
            if suspect.group is not None
            else suspect.pair is None and labels & set(match.labels)
        ):
            missing |= set(match.missing)
    return sorted(missing)


def _expert_elements(view: View, job: JobLines) -> F64 | None:
    """Elements of the all-to-alls of each rank in each step, [ranks, steps]; None without sizes."""
    found = np.zeros((len(job.labels), job.num_steps))
    for index, item in enumerate(view.match_inputs):
        calls = item.calls
        rows = np.flatnonzero((calls.kind == _ALL_TO_ALL) & (calls.in_elems >= 0))
        place = np.searchsorted(job.table.step_ids, calls.step[rows])
        known = np.append(job.table.step_ids, -2)[place] == calls.step[rows]
        elements = calls.in_elems[rows] + np.maximum(calls.out_elems[rows], 0)
        np.add.at(found[index], place[known], elements[known])
    return found if found.any() else None


def details_of(ladder: Ladder, verdict: Verdict) -> dict[str, Any]:
    """Return the keys of the metric ``verdict``."""
    finding = verdict.finding
    steps = ladder.rungs.mean(axis=1)
    loss = ladder.loss_ns
    bounds = finding.bounds_ns
    saves = None if bounds is not None else finding.saves_ns
    return {
        "verdict": finding.verdict,
        "confidence": verdict.confidence,
        "culprit": culprit_of(ladder, finding),
        "loss_ms": milliseconds(loss),
        "loss_pct": 100 * ladder.loss_ratio,
        "saves_ms": None if saves is None else milliseconds(saves),
        "saves_pct": None if saves is None else 100 * saves / steps[-1],
        "saves_bounds_ms": None if bounds is None else [milliseconds(one) for one in bounds],
        "shares": {name: float(share) for name, share in zip(RUNGS, ladder.shares, strict=True)},
        "period": ladder.job.period,
        "ladder_ms": [milliseconds(float(step)) for step in steps],
        "hosts_launch_ms": milliseconds(float(ladder.host_need_ns.mean())) or None,
        "agreement": verdict.agreement,
        "also": [
            {
                "rung": rung,
                "verdict": one.verdict or "inconclusive",
                "culprit": culprit_of(ladder, one),
                "saves_ms": None
                if one.saves_ns is None or one.bounds_ns is not None
                else milliseconds(one.saves_ns),
                "why": one.why,
            }
            for rung, one in verdict.also
        ],
        "evidence": verdict.evidence,
        "ruled_out": list(verdict.ruled_out),
        "next": list(verdict.next),
        "why": finding.why,
    }


def culprit_of(ladder: Ladder, finding: Finding) -> dict[str, Any] | None:
    """Return who is to blame, None where nobody is."""
    one = finding.suspect
    if one is None and finding.absent:
        keys = ("stage", "group", "pair", "host", "steps", "factor")
        return {"ranks": list(finding.absent), **dict.fromkeys(keys), "recorded": False}
    if one is None:
        return None
    labels = ladder.job.labels
    return {
        "ranks": [labels[rank] for rank in one.ranks],
        "stage": one.stage,
        "group": one.group,
        "pair": None if one.pair is None else [labels[rank] for rank in one.pair],
        "host": one.host,
        "steps": None if one.steps is None else list(one.steps),
        "factor": one.factor,
        "recorded": True,
    }
