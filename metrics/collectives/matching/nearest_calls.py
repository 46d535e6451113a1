"""For calls in order of time, the like call of another sequence whose end is nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

Tokens = npt.NDArray[np.integer]

_NEVER: Final = np.iinfo(np.int64).max
_BITS: Final = 62
_Calls = tuple[I64, I64]
"""What calls are, ascending, and when they ended, ascending among like ones."""


@dataclass(frozen=True, slots=True)
class Alike:
    """The calls of two sequences by what they are: small numbers, and the order by them.

    Both sequences ascend in time, and so do like calls in that order.
    """

    code: I64
    other_code: I64
    order: I64
    other_order: I64

    @classmethod
    def of(cls, tokens: Tokens, other_tokens: Tokens) -> Alike:
        """Calls are like where their tokens are equal; small numbers are not coded again."""
        small = tokens.dtype == other_tokens.dtype == np.int16
        code, other = (tokens, other_tokens) if small else coded((tokens, other_tokens))
        return cls(code.astype(np.int64), other.astype(np.int64), _ordered(code), _ordered(other))

    def nearest(self, ends_ns: I64, other_ends_ns: I64, near_ns: int) -> I64:
        """Which of the others each call is the counterpart of, int64, -1 for none.

        Their ends are near, and each is the nearest of the other.
        """
        place = np.full(len(ends_ns), MISSING, np.int64)
        if not len(ends_ns) or not len(other_ends_ns):
            return place
        own = self.code[self.order], ends_ns[self.order]
        other = self.other_code[self.other_order], other_ends_ns[self.other_order]
        key, other_key = _keys(own, other)
        forth, apart = _closest(key, own, other_key, other)
        back, _ = _closest(other_key, other, key, own)
        mutual = (apart <= near_ns) & (back[forth] == np.arange(len(key)))
        place[self.order[mutual]] = self.other_order[forth[mutual]]
        return place


def coded(tokens: Sequence[Tokens]) -> list[Tokens]:
    """Each sequence with its tokens numbered, alike in all; as few bytes as they need."""
    names = distinct_values(tokens[0]) if len(tokens) else np.empty(0, np.int64)
    places = []
    for one in tokens:
        place = _place(names, one)
        if place is None:
            names = distinct_values(np.concatenate((names, distinct_values(one))))
            return coded((names, *tokens))[1:]
        places.append(place)
    small = np.int16 if len(names) < 1 << 15 else np.int64
    return [place.astype(small) for place in places]


def _place(names: Tokens, tokens: Tokens) -> I64 | None:
    """Where each token is among the names, None where one is not."""
    if not len(tokens):
        return np.empty(0, np.int64)
    if not len(names):
        return None
    place = np.minimum(np.searchsorted(names, tokens), len(names) - 1)
    return place if np.array_equal(names[place], tokens) else None


def _ordered(code: Tokens) -> I64:
    return np.argsort(code, kind="stable")


def _keys(own: _Calls, other: _Calls) -> tuple[I64, I64]:
    """Numbers that order the calls of both by what they are, then by when they ended."""
    (code, ends), (other_code, other_ends) = own, other
    base = min(int(ends.min()), int(other_ends.min()))
    span = max(int(ends.max()), int(other_ends.max())) - base + 1
    number = 1 + max(int(code[-1]), int(other_code[-1]))
    shift = max(0, (number * span).bit_length() - _BITS)
    width = (span >> shift) + 1
    here, there = ((part - base) >> shift for part in (ends, other_ends))
    return code * width + here, other_code * width + there


def _closest(key: I64, own: _Calls, among_key: I64, among: _Calls) -> tuple[I64, I64]:
    """Which of the others of the same kind ended nearest to each, and how far, int64 ns."""
    (code, times), (among_code, ends) = own, among
    right = np.searchsorted(among_key, key)
    left = np.maximum(right - 1, 0)
    right = np.minimum(right, len(among_key) - 1)
    before, after = (
        np.where(among_code[one] == code, np.abs(ends[one] - times), _NEVER)
        for one in (left, right)
    )
    return np.where(before < after, left, right), np.minimum(before, after)
