"""Collectives that are missing, extra or different on some ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import asdict

from ccltui.metrics.collectives.matching.match import CONFIDENCES, LOW, METHODS, GroupMatch, gather
from ccltui.metrics.collectives.matching.mismatches import Mismatch, mismatches_of, tally
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.collective_selection import (
    describe_group,
    nothing_selected,
    parts_of,
    require_ranks,
)
from ccltui.metrics.view.provenance import answer, source_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import Bool

MAX_SHOWN: Final = 50


@metric(
    unit="collectives",
    definition=(
        "Number of collectives that are missing on a rank of their group, present on few ranks "
        "only, or of another type, element type or size on some ranks, between the first and "
        "the last collective that all ranks of the group have."
    ),
    needs=("collectives", "2 ranks of one group"),
    keys=(
        "num_problems",
        "num_missing",
        "num_extra",
        "num_mismatched",
        "num_matched",
        "num_outside_window",
        "num_on_several_kernels",
        "methods",
        "confidence",
        "findings",
        "by_group",
        "not_matched",
    ),
    headline="num_problems",
    label="mismatched collectives",
    higher_is_better=False,
)
def collective_mismatches(view: View) -> Result:
    """Differences between the ranks of every group that the selection includes."""
    require_ranks(view)
    source, warnings = source_of(view.ranks)
    parts = parts_of(view)
    if not any(part.rows.any() for part in parts):
        raise nothing_selected(view, parts)
    timed = [part.rows & ~_without_times(view, part.arrived.match) for part in parts]
    touched = [
        part.arrived.match.where(rows)
        for part, rows in zip(parts, timed, strict=True)
        if rows.any()
    ]
    matches = [match for match in touched if (match.confidence > LOW).any()]
    if not matches:
        raise refuse("unmatched_collectives", _DOUBTFUL)
    counts = [tally(match) for match in matches]
    shown = [found for match in matches for found in _shown(view, match)]
    faults = {name: sum(getattr(one, name) for one in counts) for name in _FAULTS}
    details: dict[str, Any] = {
        "num_problems": sum(faults.values()),
        **{f"num_{name}": count for name, count in faults.items()},
        "num_matched": sum(one.matched for one in counts),
        "num_outside_window": sum(one.outside for one in counts),
        "num_on_several_kernels": sum(one.on_several_kernels for one in counts),
        "methods": _methods(matches),
        "confidence": _confidence(matches),
        "findings": shown[:MAX_SHOWN],
        "by_group": [
            {
                **describe_group(view, match.group),
                **asdict(one),
                "members": list(match.labels),
                "absent_ranks": list(match.missing),
                "methods": _methods([match]),
                "confidence": _confidence([match]),
            }
            for match, one in zip(matches, counts, strict=True)
        ],
        "not_matched": dict(view.matches.skipped),
    }
    if len(shown) > MAX_SHOWN:
        warnings = [*warnings, f"the first {MAX_SHOWN} of {len(shown)} findings are listed"]
    return answer(
        collective_mismatches,
        view,
        details,
        source=source,
        basis={
            "missing": "most ranks have it, between the first and the last that all have",
            "extra": "fewer than half of them do",
            "mismatched": "type, element type or number of elements differ",
            "outside": "before the first or after the last that all have: windows differ",
        },
        reasons=[
            *_reasons(view, num_doubtful=len(touched) - len(matches)),
            *_uncertain(_confidence(matches), sum(faults.values())),
        ],
        warnings=warnings,
    )


def _without_times(view: View, match: GroupMatch) -> Bool:
    """Mask of the instances that ranks lack only because their kernels have impossible times."""
    inputs = view.inputs_by_label
    lacking = match.rows < 0
    unexplained = lacking.copy()
    for member, label in enumerate(match.labels):
        if not lacking[:, member].any() or not view.facts.ranks[label].has_untimed:
            continue
        calls = view.facts.untimed_calls(label)
        own = calls.take(calls.group == match.group) if match.group >= 0 else calls
        explained = np.isin(match.kind, own.kind)
        if (own.seq >= 0).all():
            explained &= np.isin(gather(match, inputs, "seq").max(axis=1), own.seq)
        unexplained[:, member] &= ~explained
    return np.asarray(lacking.any(axis=1) & ~unexplained.any(axis=1))


_FAULTS: Final = ("missing", "extra", "mismatched")


def _shown(view: View, match: GroupMatch) -> Sequence[dict[str, Any]]:
    found = mismatches_of(match, view.inputs_by_label)
    group = describe_group(view, match.group)["group"]
    return [_row(group, one) for one in found]


def _row(group: object, found: Mismatch) -> dict[str, Any]:
    return {
        "problem": found.problem,
        "group": group,
        "type": found.kind,
        "index": found.index,
        "seq": found.seq,
        "step": found.step,
        "ranks": list(found.labels),
        "values": {field: dict(values) for field, values in found.values.items()},
        "text": _text(group, found),
    }


def _text(group: object, found: Mismatch) -> str:
    number = f" (seq {found.seq})" if found.seq is not None else ""
    what = f"collective {found.index}{number} of {group}, {found.kind}"
    ranks = ", ".join(found.labels[:8]) + (", …" if len(found.labels) > 8 else "")
    if found.problem == "missing":
        return f"{what}: missing on rank {ranks}"
    if found.problem == "extra":
        return f"{what}: only on rank {ranks}"
    return f"{what}: {' and '.join(found.values) or 'it'} differs on rank {ranks}"


def _methods(matches: Sequence[GroupMatch]) -> dict[str, int]:
    levels = np.concatenate([match.level for match in matches])
    counts = np.bincount(levels, minlength=5)
    return {name: int(counts[level]) for level, name in METHODS.items() if counts[level]}


def _confidence(matches: Sequence[GroupMatch]) -> dict[str, int]:
    counts = np.bincount(np.concatenate([match.confidence for match in matches]), minlength=3)
    return {name: int(counts[value]) for value, name in enumerate(CONFIDENCES)}


_DOUBTFUL: Final = (
    "collectives are matched by order alone, with low confidence: a missing collective cannot be "
    "distinguished from a different one"
)


def _uncertain(confidence: Mapping[str, int], num_problems: int) -> list[Reason]:
    low, total = confidence["low"], sum(confidence.values())
    if not low or not num_problems:
        return []
    text = (
        f"{low} of {total} collectives are matched with low confidence, by order alone: what is "
        "reported as missing on two ranks may be one collective"
    )
    return [Reason("unmatched_collectives", text)]


def _reasons(view: View, *, num_doubtful: int) -> list[Reason]:
    reasons = [
        Reason("unmatched_collectives", f"rank {label} is left out: {why}", rank=label)
        for label, why in view.matches.skipped.items()
        if " is claimed by " not in why
    ]
    if num_doubtful:
        text = f"{num_doubtful} groups are left out: their {_DOUBTFUL}"
        reasons.append(Reason("unmatched_collectives", text))
    return reasons


metric_cal = collective_mismatches.document_of
