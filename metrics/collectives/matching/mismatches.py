"""Find collectives that differ between ranks, with rank and index.

Before the first and after the last collective that all members have, some ranks lack calls because
their windows open late or close early; that is no fault. In between, a collective that at least
half of the members have is missing on the others, and one that fewer have is extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import numpy as np
from msgspec import Struct

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


def _text(field: str, value: int) -> str:
    if value < 0:
        return "not stated"
    if field == "type":
        return TYPES[value]
    return DTYPES[value] if field == "dtype" else str(value)
