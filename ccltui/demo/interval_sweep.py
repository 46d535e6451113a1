"""Measure how long classes of intervals are active together, in one sweep over all edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Interval = tuple[int, int]
Spent = Counter[frozenset[str]]


def together(classes: Mapping[str, Iterable[Interval]]) -> Spent:
    """Nanoseconds during which exactly each set of classes is active; half-open intervals."""
    edges = [
        (time_ns, change, name)
        for name, intervals in classes.items()
        for start_ns, end_ns in intervals
        for time_ns, change in ((start_ns, 1), (end_ns, -1))
    ]
    edges.sort()
    active: Counter[str] = Counter()
    spent: Spent = Counter()
    before_ns = 0
    for time_ns, change, name in edges:
        if time_ns > before_ns:
            spent[frozenset(key for key, count in active.items() if count)] += time_ns - before_ns
        before_ns = time_ns
        active[name] += change
    del spent[frozenset()]  # time with no active class
    return spent


def total(spent: Spent, present: set[str], absent: set[str] | None = None) -> int:
    """Nanoseconds during which all of ``present`` and none of ``absent`` are active."""
    unwanted = absent or set()
    return sum(ns for names, ns in spent.items() if present <= names and not names & unwanted)
