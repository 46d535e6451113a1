"""Apply injected delays to the program of a rank, and draw the variation of its kernels."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import get_args

from msgspec.structs import replace

from ccltui.demo.program import Communicate, Item, Stall, StepProgram, Work
from ccltui.demo.spec import Cause, Spec


def delayed_items(steps: StepProgram, rank: int, step: int) -> list[Item]:
    """All operations of a rank in a step with its delays, without random variation."""
    spec = steps.spec
    stalls = {
        kind: delay_ns(spec, rank, step, kind) + spec.data_loading_ns * (kind == FIRST)
        for kind in get_args(Stall)
    }
    busy = {kind: dur_ns for kind, dur_ns in stalls.items() if dur_ns or kind == FIRST}
    items = steps.items(step, {**busy, "": delay_ns(spec, rank, step, "host")})
    for cause, apply in _ON_DEVICE.items():
        items = apply(items, delay_ns(spec, rank, step, cause))
    return items


def jitter_source(spec: Spec, rank: int, step: int) -> random.Random:
    """Random numbers for the variation of the kernels of a rank in a step."""
    return random.Random(f"{spec.seed}/{rank}/{step}")


FIRST: Stall = "data_loading"
"""Stall of every rank in every step."""


def delay_ns(spec: Spec, rank: int, step: int, cause: Cause) -> int:
    """Injected delay of a rank in a step for one cause."""
    return sum(
        straggler.extra_ns
        for straggler in spec.stragglers
        if straggler.rank == rank and straggler.cause == cause and straggler.acts_in(step)
    )


def _slowed(items: list[Item], extra_ns: int) -> list[Item]:
    """Prolong every kernel in proportion to its duration."""
    return _prolonged(items, extra_ns, [isinstance(i, Work) and i.computes for i in items])


def _slow_attention(items: list[Item], extra_ns: int) -> list[Item]:
    """Prolong only the kernels of attention."""
    return _prolonged(
        items, extra_ns, [isinstance(i, Work) and i.kind == "attention" for i in items]
    )


def _long_copies(items: list[Item], extra_ns: int) -> list[Item]:
    """Prolong the copy of the input."""
    return _prolonged(items, extra_ns, [isinstance(i, Work) and i.kind == "copy_in" for i in items])


def _prolonged(items: list[Item], extra_ns: int, chosen: Sequence[bool]) -> list[Item]:
    """Divide the time among chosen kernels in proportion; the last one gets the rounding error."""
    kernels = [i for i, ours in zip(items, chosen, strict=True) if ours and isinstance(i, Work)]
    total_ns = sum(kernel.dur_ns for kernel in kernels)
    if not extra_ns or not total_ns:
        return items
    shares = [extra_ns * kernel.dur_ns // total_ns for kernel in kernels]
    shares[-1] += extra_ns - sum(shares)
    left = iter(shares)
    return [
        replace(item, dur_ns=item.dur_ns + next(left)) if ours and isinstance(item, Work) else item
        for item, ours in zip(items, chosen, strict=True)
    ]


def _more_kernels(items: list[Item], extra_ns: int) -> list[Item]:
    """Add a small kernel after each small one, ``extra_ns`` in total."""
    small = [isinstance(item, Work) and item.kind == "elementwise" for item in items]
    count = sum(small)
    if not extra_ns or not count:
        return items
    more: list[Item] = []
    left = [extra_ns // count] * (count - 1)
    left.append(extra_ns - sum(left))
    for item, ours in zip(items, small, strict=True):
        more.append(item)
        if ours and isinstance(item, Work):
            more.append(replace(item, dur_ns=left.pop()))
    return more


def _more_tokens(items: list[Item], extra_ns: int) -> list[Item]:
    """Send more tokens to the experts: larger messages, and longer kernels between them."""
    inside, dispatched = [], False
    for item in items:
        if _exchanges(item):
            dispatched = not dispatched
        inside.append(dispatched and isinstance(item, Work) and item.computes)
    usual_ns = sum(
        i.dur_ns for i, ours in zip(items, inside, strict=True) if ours and isinstance(i, Work)
    )
    if not extra_ns or not usual_ns:
        return items
    heavier = _prolonged(items, extra_ns, inside)
    dispatched = False
    for place, item in enumerate(heavier):
        if isinstance(item, Communicate) and _exchanges(item):
            dispatched = not dispatched
            more = item.in_elems + item.in_elems * extra_ns // usual_ns
            heavier[place] = (
                replace(item, out_elems=more) if dispatched else replace(item, in_elems=more)
            )
    return heavier


def _exchanges(item: Item) -> bool:
    return isinstance(item, Communicate) and item.operation == "all_to_allv"


_ON_DEVICE: dict[Cause, Callable[[list[Item], int], list[Item]]] = {
    "compute": _slowed,
    "kernel": _slow_attention,
    "more_kernels": _more_kernels,
    "tokens": _more_tokens,
    "copies": _long_copies,
}
