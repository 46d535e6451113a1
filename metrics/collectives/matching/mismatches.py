"""Collectives that are not what they should be on all ranks: named, with rank and index.

Where windows open late or close early, collectives are on some ranks only; that is no fault. In
between, one that most ranks have is missing on the others, and one that few have is extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ccltui.metrics.arrays.reductions import row_any, row_count
from ccltui.metrics.collectives.matching.match import GroupMatch, MatchInput, gather
from ccltui.metrics.model.calls import DTYPES
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import Bool

Problem = Literal["missing", "extra", "mismatched"]

FIELDS: Final = {
    "type": "kind",
    "dtype": "dtype",
    "in_elems": "in_elems",
    "out_elems": "out_elems",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One collective that differs between ranks.

    ``index`` is its place among those of the group, ``seq`` its number (None without).
    ``labels`` are the ranks that lack it, that alone have it, or whose ``values`` (by field and
    rank) are not those of most.
    """

    problem: Problem
    index: int
    seq: int | None
    kind: str
    step: int | None
    labels: tuple[str, ...]
    values: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Tally:
    """How the instances of one group were matched, and how many differ."""

    matched: int
    missing: int
    extra: int
    mismatched: int
    outside: int
    on_several_kernels: int


def tally(match: GroupMatch) -> Tally:
    """Count the instances of a group by what is the matter with them."""
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


def findings(match: GroupMatch, inputs: Mapping[str, MatchInput]) -> Iterator[Finding]:
    """The instances that differ between ranks, in order of time."""
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
    """Instances between the first and the last that all members have."""
    complete = np.flatnonzero(match.complete)
    inside = np.zeros(len(match.rows), np.bool_)
    if len(complete):
        inside[complete[0] : complete[-1]] = True
    return inside


def _scarce(match: GroupMatch) -> Bool:
    """Instances that fewer than half of the members have."""
    return np.asarray(2 * row_count(match.rows >= 0) < match.rows.shape[1])


def _mismatch(match: GroupMatch, inputs: Mapping[str, MatchInput], row: int) -> Finding:
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
        texts = [_text(field, value) for value in stated]
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
) -> Finding:
    seq = int(gather(match.instance(row), inputs, "seq").max())
    step = int(match.step[row])
    return Finding(
        problem=problem,
        index=row,
        seq=seq if seq >= 0 else None,
        kind=TYPES[match.kind[row]],
        step=step if step >= 0 else None,
        labels=labels,
        values=values,
    )


def _text(field: str, value: int) -> str:
    if value < 0:
        return "not stated"
    if field == "type":
        return TYPES[value]
    return DTYPES[value] if field == "dtype" else str(value)
