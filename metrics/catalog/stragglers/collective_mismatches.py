"""Collectives that are missing, extra or different on some ranks, with rank and index.

Before the first and after the last collective that all members have, some ranks lack calls because
their windows open late or close early; that is no fault. In between, a collective that at least
half of the members have is missing on the others, and one that fewer have is extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from ccltui.metrics.arrays.reductions import row_any, row_count
from ccltui.metrics.collectives.matching.match import (
    CONFIDENCES,
    LOW,
    METHODS,
    GroupMatch,
    MatchInput,
    gather,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.model.calls import DTYPES
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.collective_selection import (
    describe_group,
    nothing_selected,
    parts_of,
    require_ranks,
)
from ccltui.metrics.view.provenance import call_answer
from ccltui.parsers.array_types import Bool

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import Bool


Problem = Literal["missing", "extra", "mismatched"]

FIELDS: Final = {
    "type": "kind",
    "dtype": "dtype",
    "in_elems": "in_elems",
    "out_elems": "out_elems",
}


class Mismatch(Struct, frozen=True):
    """One collective that differs between ranks.

    ``index`` is its place among those of the group, ``seq`` its sequence number (None without).
    ``labels`` are the ranks that lack it (missing), that alone have it (extra), or whose
    ``values`` (by field and rank) differ from the most frequent ones (mismatched).
    """

    problem: Problem
    index: int
    seq: int | None
    kind: str
    step: int | None
    labels: tuple[str, ...]
    values: Mapping[str, Mapping[str, str]]


class Tally(Struct, frozen=True):
    """Number of instances of one group by how they match.

    ``outside`` are incomplete ones before the first or after the last complete instance.
    """

    matched: int
    missing: int
    extra: int
    mismatched: int
    outside: int
    on_several_kernels: int


def tally(match: GroupMatch) -> Tally:
    """Count the instances of a group by how they match."""
    inside, scarce = _inside(match), _scarce(match)
    lacking = ~match.complete
    several = 0 if match.until is None else int(row_any(match.until != match.rows).sum())
    return Tally(
        matched=int(match.usable.sum()),
        missing=int((lacking & inside & ~scarce).sum()),
        extra=int((lacking & inside & scarce).sum()),
        mismatched=match.num_mismatched,
        outside=int((lacking & ~inside).sum()),
        on_several_kernels=several,
    )


def mismatches_of(match: GroupMatch, inputs: Mapping[str, MatchInput]) -> Iterator[Mismatch]:
    """Yield the instances that differ between ranks, in order of time."""
    inside, scarce = _inside(match), _scarce(match)
    doubtful = (~match.complete & inside) | (match.complete & ~match.agrees)
    for row in np.flatnonzero(doubtful).tolist():
        present = match.rows[row] >= 0
        if present.all():
            yield _mismatch(match, inputs, row)
            continue
        problem: Problem = "extra" if scarce[row] else "missing"
        chosen = present if scarce[row] else ~present
        labels = tuple(label for label, ours in zip(match.labels, chosen, strict=True) if ours)
        yield _finding(match, inputs, row, problem=problem, labels=labels, values={})


def _inside(match: GroupMatch) -> Bool:
    """Mask of the instances between the first and the last that all members have."""
    complete = np.flatnonzero(match.complete)
    inside = np.zeros(len(match.rows), np.bool_)
    if len(complete):
        inside[complete[0] : complete[-1]] = True
    return inside


def _scarce(match: GroupMatch) -> Bool:
    """Mask of the instances that fewer than half of the members have."""
    return np.asarray(2 * row_count(match.rows >= 0) < match.rows.shape[1])


def _mismatch(match: GroupMatch, inputs: Mapping[str, MatchInput], row: int) -> Mismatch:
    one = match.instance(row)
    values: dict[str, dict[str, str]] = {}
    odd: set[str] = set()
    for field, column in FIELDS.items():
        stated = gather(one, inputs, column)[0].tolist()
        known = [value for value in stated if value >= 0]
        if len(set(known)) < 2:
            continue
        usual = max(sorted(set(known)), key=known.count)
        odd |= {
            label
            for label, value in zip(match.labels, stated, strict=True)
            if value >= 0 and value != usual
        }
        texts = [_mismatches_text(field, value) for value in stated]
        values[field] = dict(zip(match.labels, texts, strict=True))
    ordered = tuple(label for label in match.labels if label in odd)
    return _finding(match, inputs, row, problem="mismatched", labels=ordered, values=values)


def _finding(
    match: GroupMatch,
    inputs: Mapping[str, MatchInput],
    row: int,
    *,
    problem: Problem,
    labels: tuple[str, ...],
    values: Mapping[str, Mapping[str, str]],
) -> Mismatch:
    seq = int(gather(match.instance(row), inputs, "seq").max())
    step = int(match.step[row])
    return Mismatch(
        problem=problem,
        index=row,
        seq=seq if seq >= 0 else None,
        kind=TYPES[match.kind[row]],
        step=step if step >= 0 else None,
        labels=labels,
        values=values,
    )


def _mismatches_text(field: str, value: int) -> str:
    if value < 0:
        return "not stated"
    if field == "type":
        return TYPES[value]
    return DTYPES[value] if field == "dtype" else str(value)


MAX_SHOWN: Final = 50


@metric(
    unit="collectives",
    definition=(
        "Number of collectives that are missing on a rank of their group, present on few ranks "
        "only, or of another type, element type or size on some ranks, between the first and "
        "the last collective that all ranks of the group have."
    ),
    needs=("collectives", "2 ranks of one group"),
    facts=("arrivals",),
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
    label="mismatched collectives",
    higher_is_better=False,
)
def collective_mismatches(view: View) -> Result:
    """Differences between the ranks of every group that the selection includes."""
    require_ranks(view)
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
    warnings = []
    if len(shown) > MAX_SHOWN:
        warnings.append(f"the first {MAX_SHOWN} of {len(shown)} findings are listed")
    return call_answer(
        collective_mismatches,
        view,
        details,
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
