"""Find for each call the like call of another sequence with the nearest end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

Tokens = npt.NDArray[np.integer]

_NEVER: Final = np.iinfo(np.int64).max
_BITS: Final = 62
_Calls = tuple[I64, I64]
"""Codes of calls, ascending, and their ends, ascending among equal codes."""


class CodedCalls(Struct, frozen=True):
    """The calls of two sequences coded as small numbers, and the stable order by these codes.

    Both sequences ascend in time, and so do equal codes in that order.
    """

    code: I64
    other_code: I64
    order: I64
    other_order: I64

    @classmethod
    def of(cls, tokens: Tokens, other_tokens: Tokens) -> CodedCalls:
        """Code calls so that equal tokens have equal codes; int16 tokens are codes already."""
        small = tokens.dtype == other_tokens.dtype == np.int16
        code, other = (tokens, other_tokens) if small else coded((tokens, other_tokens))
        return cls(code.astype(np.int64), other.astype(np.int64), _ordered(code), _ordered(other))

    def nearest(self, ends_ns: I64, other_ends_ns: I64, near_ns: int) -> I64:
        """Return the counterpart of each call in the other sequence, int64, -1 for none.

        Their ends are at most ``near_ns`` apart, and each is the nearest of the other.
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
    """Number the tokens alike in all sequences, as int16 where that suffices, else int64."""
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
    """Return the place of each token among the names, None where one is missing."""
    if not len(tokens):
        return np.empty(0, np.int64)
    if not len(names):
        return None
    place = np.minimum(np.searchsorted(names, tokens), len(names) - 1)
    return place if np.array_equal(names[place], tokens) else None


def _ordered(code: Tokens) -> I64:
    return np.argsort(code, kind="stable")


def _keys(own: _Calls, other: _Calls) -> tuple[I64, I64]:
    """Return keys that order the calls of both sequences by code, then by end."""
    (code, ends), (other_code, other_ends) = own, other
    base = min(int(ends.min()), int(other_ends.min()))
    span = max(int(ends.max()), int(other_ends.max())) - base + 1
    number = 1 + max(int(code[-1]), int(other_code[-1]))
    shift = max(0, (number * span).bit_length() - _BITS)
    width = (span >> shift) + 1
    here, there = ((part - base) >> shift for part in (ends, other_ends))
    return code * width + here, other_code * width + there


def _closest(key: I64, own: _Calls, among_key: I64, among: _Calls) -> tuple[I64, I64]:
    """Return the call of the same code with the nearest end, and the distance, int64 ns."""
    (code, times), (among_code, ends) = own, among
    right = np.searchsorted(among_key, key)
    left = np.maximum(right - 1, 0)
    right = np.minimum(right, len(among_key) - 1)
    before, after = (
        np.where(among_code[one] == code, np.abs(ends[one] - times), _NEVER)
        for one in (left, right)
    )
    return np.where(before < after, left, right), np.minimum(before, after)
