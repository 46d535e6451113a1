"""What goes wrong on a rank: planted stragglers, and the chance variation of its kernels."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ccltui.demo.program import Item, StepProgram, Work
from ccltui.demo.spec import Cause, Spec
from ccltui.demo.topology import Topology


def program(spec: Spec, topology: Topology, rank: int) -> Iterator[Item]:
    """All operations of a rank over all steps, with everything that delays it."""
    steps = StepProgram(spec, topology, rank)
    for step in range(spec.steps):
        waiting_ns = planted_ns(spec, rank, step, "data_loading")
        items = steps.items(
            step,
            loading_ns=spec.data_loading_ns + waiting_ns,
            silent_ns=planted_ns(spec, rank, step, "host"),
        )
        slowed = _slowed(items, planted_ns(spec, rank, step, "compute"))
        yield from _jittered(slowed, spec.jitter_ns, random.Random(f"{spec.seed}/{rank}/{step}"))


def planted_ns(spec: Spec, rank: int, step: int, cause: Cause) -> int:
    """By how much a rank is delayed in a step for one cause."""
    return sum(
        straggler.extra_ns
        for straggler in spec.stragglers
        if straggler.rank == rank and straggler.cause == cause and straggler.acts_in(step)
    )


def _slowed(items: list[Item], extra_ns: int) -> list[Item]:
    """Prolong every kernel in proportion, the last one by what the rounding leaves."""
    kernels = [item for item in items if isinstance(item, Work) and item.computes]
    total_ns = sum(kernel.dur_ns for kernel in kernels)
    if not extra_ns or not total_ns:
        return items
    shares = [extra_ns * kernel.dur_ns // total_ns for kernel in kernels]
    shares[-1] += extra_ns - sum(shares)
    left = iter(shares)
    return [
        replace(item, dur_ns=item.dur_ns + next(left))
        if isinstance(item, Work) and item.computes
        else item
        for item in items
    ]


def _jittered(items: Iterable[Item], jitter_ns: int, chance: random.Random) -> Iterator[Item]:
    for item in items:
        if jitter_ns and isinstance(item, Work):
            yield replace(item, dur_ns=item.dur_ns + chance.randint(0, jitter_ns))
        else:
            yield item
